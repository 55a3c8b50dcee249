// The training data that a job names.
#pragma once

#include <memory>

#include "common/config/config.h"
#include "worker/data/dataset.h"

namespace pfc {

/// Opens the data set of job.rec, or all of them as one (combined_dataset.h). With several sets
/// num_classes, num_image and head_classes are checked against them together. Throws InputError.
std::unique_ptr<Dataset> open_job_data(const JobConfig& job, const Doing& doing = {});

/// Opens them and writes into the job what only they say: num_classes, num_image, head_classes for
/// separate heads, and embedding_size of embeddings. Throws InputError for embeddings where the job
/// has a network, and for images where it has none.
std::unique_ptr<Dataset> open_job_data_and_complete(JobConfig& job, const Doing& doing = {});

/// The same for training: copies them into job.stage first (staging.h), where that is given. The
/// job's paths stay as they are.
std::unique_ptr<Dataset> open_staged_job_data(JobConfig& job, const Doing& doing = {});

/// Whether there is something at each of job.rec's paths, so that opening it makes sense here.
bool has_data_here(const JobConfig& job);

}  // namespace pfc
