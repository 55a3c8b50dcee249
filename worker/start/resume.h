// From which checkpoint on disk a job goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/config/config.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/comm/comm.h"
#include "worker/schedule/step_plan.h"

namespace pfc {

struct CheckpointOnDisk {
  std::filesystem::path folder;
  std::int64_t images = 0;  ///< seen by then
  std::string other_order;  ///< other_order() of its job and this one; on rank 0 alone
};

/// The newest one in the job's output that it may go on from: any with `resume`, otherwise this
/// job's own of an earlier generation. Rank 0 looks for all, because a folder that hosts share may
/// look older on another one; every worker of `comm` calls it. Throws what checkpoint_to_resume()
/// does.
std::optional<CheckpointOnDisk> newest_checkpoint_of_all(Comm& comm, const JobConfig& job,
                                                         const std::string& job_id);

/// What of two jobs gives the same data another order: "seed 1 became 2, shuffle true became
/// false"; empty: nothing. Each is to_json() of a job, `before` maybe that of an older version.
std::string other_order(const nlohmann::json& before, const nlohmann::json& now);

/// What to add to resumed_message() where a checkpoint's job had another order and the job goes on
/// within an epoch; empty: nothing.
std::string repeated_images_message(const CheckpointOnDisk& checkpoint, const StepPlan& plan);

/// "resumed from output/step-000000040 (step 40 of 2 workers): next is step 41"
std::string resumed_message(const CheckpointInfo& checkpoint, std::int64_t first_step,
                            std::int64_t last_step);

}  // namespace pfc
