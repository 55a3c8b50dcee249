// Opens the training data of a job.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "common/config/config.h"
#include "data/dataset.h"

namespace pfc {

/// Opens the data set of job.rec, or several as one (combined_dataset.h). Checks num_classes,
/// num_image and head_classes if they are given. Throws InputError.
std::unique_ptr<Dataset> open_job_data(const JobConfig& job, const Doing& doing = {});

/// Sets the job's values that come from the data: num_classes, num_image, embedding_size for data
/// sets of embeddings, and head_classes for separate heads. Throws InputError if the data are
/// embeddings but the job has a network, or images but the job has none.
void complete_job(JobConfig& job, const DatasetInfo& info);

/// Calls open_job_data() and complete_job().
std::unique_ptr<Dataset> open_job_data_and_complete(JobConfig& job, const Doing& doing = {});

/// If job.stage is given, copies the data there (staging.h). Returns the paths to open instead of
/// job.rec: the copies, or job.rec itself.
std::vector<std::filesystem::path> stage_job_data(const JobConfig& job, const Doing& doing = {});

/// Returns whether all paths of job.rec exist on this host.
bool has_data_here(const JobConfig& job);

}  // namespace pfc
