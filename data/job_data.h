// The training data that a job names.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "common/config/config.h"
#include "data/dataset.h"

namespace pfc {

/// Opens the data set of job.rec, or all of them as one (combined_dataset.h). num_classes,
/// num_image and head_classes are checked against them where they are given. Throws InputError.
std::unique_ptr<Dataset> open_job_data(const JobConfig& job, const Doing& doing = {});

/// Writes into the job what only its data say: num_classes, num_image, head_classes for separate
/// heads, and embedding_size of embeddings. Throws InputError for embeddings where the job has a
/// network, and for images where it has none.
void complete_job(JobConfig& job, const DatasetInfo& info);

/// Both.
std::unique_ptr<Dataset> open_job_data_and_complete(JobConfig& job, const Doing& doing = {});

/// Copies the data into job.stage (staging.h), where that is given. Returns what to open in place
/// of job.rec: the copies, or job.rec itself.
std::vector<std::filesystem::path> stage_job_data(const JobConfig& job, const Doing& doing = {});

/// Whether there is something at each of job.rec's paths, so that opening it makes sense here.
bool has_data_here(const JobConfig& job);

}  // namespace pfc
