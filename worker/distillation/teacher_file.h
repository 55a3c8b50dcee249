// Reads the file of a job's teacher, the network whose embeddings the trained one learns to give.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/config/config.h"
#include "model/files/model_file.h"

namespace pfc {

/// Reads JobConfig::teacher, for images of this size. A file of torchvision does not say how its
/// network reads pixels: as the job's then. Throws InputError that names the key and the file if it
/// is not a network's, or if its embeddings or images have another size than the job's. REQUIRES:
/// the job has a teacher.
ModelFile read_teacher(const JobConfig& job, std::int64_t height, std::int64_t width);

/// Returns a summary of the file, which must be equal on all hosts: "r50, SHA-256 ba7816bf...".
std::string teacher_brief(const std::filesystem::path& file, const ModelFile& teacher);

}  // namespace pfc
