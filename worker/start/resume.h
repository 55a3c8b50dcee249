// From which checkpoint on disk a job goes on.
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

/// A job, and what of its order of images is not in it.
struct OrderedJob {
  nlohmann::json job;            ///< to_json() of it, maybe that of an older version
  std::int64_t micro_batch = 0;  ///< images of all workers' batches together; 0: not known
};

/// `global_batch`: images of a step.
OrderedJob ordered_job(nlohmann::json job, std::int64_t global_batch);

struct CheckpointOnDisk {
  std::filesystem::path folder;
  std::int64_t images = 0;  ///< trained with
  OrderedJob ordered;       ///< on rank 0 alone
};

/// The newest one in the job's output that it may go on from: any with `resume`, otherwise this
/// job's own of an earlier generation. Rank 0 looks for all, because a folder that hosts share may
/// look older on another one; every worker of `comm` calls it. Throws what checkpoint_to_resume()
/// and compare_people() (resumed_people.h) do; rank 0 logs the warnings of that header. `data`:
/// what the data sets hold, on rank 0.
std::optional<CheckpointOnDisk> newest_checkpoint_of_all(Comm& comm, const JobConfig& job,
                                                         const std::string& job_id,
                                                         const std::vector<std::string>& data);

/// What of two jobs gives the same data another order: "seed changed from 1 to 2, shuffle
/// changed from true to false"; empty: nothing.
std::string other_order(const OrderedJob& before, const OrderedJob& now);

/// What to add to the message of a job that goes on within an epoch in another order; empty:
/// nothing.
std::string repeated_images_message(const std::string& other_order, const StepPlan& plan);

/// What to add to the message of a job whose steps have another batch than planned; empty: nothing.
std::string resized_message(const JobConfig& job, const StepPlan& plan);

/// "resumed from output/step-000000040 (step 40 of 2 workers): next is step 41"
std::string resumed_message(const CheckpointInfo& checkpoint, const StepPlan& plan);

}  // namespace pfc
