// From which checkpoint on disk a job goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "worker/checkpoint/checkpoint.h"
#include "worker/comm/comm.h"

namespace pfc {

struct CheckpointOnDisk {
  std::filesystem::path folder;
  std::int64_t images = 0;  ///< seen by then
};

/// The newest one in `output` that a job may go on from: any with `resume`, otherwise this job's
/// own of an earlier generation. Rank 0 looks for all, because a folder that hosts share may look
/// older on another one; every worker of `comm` calls it. Throws what checkpoint_to_resume() does.
std::optional<CheckpointOnDisk> newest_checkpoint_of_all(Comm& comm,
                                                         const std::filesystem::path& output,
                                                         const std::string& job_id, bool resume);

/// "resumed from output/step-000000040 (step 40 of 2 workers): next is step 41"
std::string resumed_message(const CheckpointInfo& checkpoint, std::int64_t first_step,
                            std::int64_t last_step);

}  // namespace pfc
