// Finds the checkpoint on disk from which a job continues.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "comm/comm.h"
#include "common/config/config.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/schedule/step_plan.h"

namespace pfc {

/// A job and the size of its micro-batch, which together determine the order of the images.
struct OrderedJob {
  nlohmann::json job;            ///< to_json() of the job, possibly from an older version
  std::int64_t micro_batch = 0;  ///< images in one micro-batch of all workers; 0 if unknown
};

/// `global_batch`: images per step.
OrderedJob ordered_job(nlohmann::json job, std::int64_t global_batch);

struct CheckpointOnDisk {
  std::filesystem::path folder;
  std::int64_t images = 0;  ///< number of images on which its state was trained
  OrderedJob ordered;       ///< set on rank 0 only
};

/// Returns the newest checkpoint in the job's output from which the job may continue, as this
/// process sees it. Throws the errors of checkpoint_to_resume().
std::optional<CheckpointInfo> newest_checkpoint_of_job(const JobConfig& job,
                                                       const std::string& job_id);

/// Returns the newest checkpoint in the job's output from which the job may continue. With
/// `resume`, this may be any checkpoint, otherwise only one that an earlier generation of this job
/// has written. Rank 0 looks for all workers, because a shared folder may look outdated on other
/// hosts; every worker of `comm` must call this. Throws the errors of checkpoint_to_resume() and
/// compare_people() (resumed_people.h). Rank 0 logs the warnings of resumed_people.h. `data`:
/// contents of the data sets, on rank 0.
std::optional<CheckpointOnDisk> newest_checkpoint_of_all(Comm& comm, const JobConfig& job,
                                                         const std::string& job_id,
                                                         const std::vector<std::string>& data);

/// Returns the changes from one job to another that change the order of the same data: "seed
/// changed from 1 to 2, shuffle changed from true to false". Empty if the order is the same.
std::string other_order(const OrderedJob& before, const OrderedJob& now);

/// Returns text for a job that continues within an epoch in another order; otherwise empty.
std::string repeated_images_message(const std::string& other_order, const StepPlan& plan);

/// Returns text for a job whose steps have another batch than planned; otherwise empty.
std::string resized_message(const JobConfig& job, const StepPlan& plan);

/// Returns "resumed from output/step-000000040 (step 40, saved by 2 workers): next is step 41".
std::string resumed_message(const CheckpointInfo& checkpoint, const StepPlan& plan);

}  // namespace pfc
