// Reads the file of a job's teacher, whose embeddings the trained network learns to match.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/config/config.h"
#include "model/files/model_file.h"

namespace pfc {

/// Reads JobConfig::teacher, for images of this size. REQUIRES: the job has a teacher. PyTorch
/// files do not define how pixels are scaled; the job's scale applies. Throws InputError that names
/// key and file if the file is not a model or is in the job's output folder, or if its embedding or
/// image size differs from the job's. With distill_embeddings "none" the embedding size may differ.
ModelFile read_teacher(const JobConfig& job, std::int64_t height, std::int64_t width);

/// Returns a summary of the file, which must be equal on all hosts: "r50, SHA-256 ba7816bf...,
/// image_mean [0.5,0.5,0.5], ...".
std::string teacher_brief(const std::filesystem::path& file, const ModelFile& teacher);

}  // namespace pfc
