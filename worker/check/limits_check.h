// Checks whether the limits of this process are sufficient for a worker of a job.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "worker/coordinator_link/check_finding.h"

namespace pfc {

/// Limits of the system. Empty means no limit.
struct LimitsThere {
  std::optional<std::uint64_t> open_files;
  std::optional<std::uint64_t> processes;      ///< how many may still start: ulimit -u, pids.max
  std::optional<std::uint64_t> locked_memory;  ///< bytes
  std::optional<std::uint64_t> shared_memory;  ///< free bytes in /dev/shm; empty: no folder
  bool has_infiniband = false;
};

/// Tests set `root`: /proc, /sys and /dev/shm are read below it.
LimitsThere limits_there(const std::filesystem::path& root = "/");

struct LimitsNeeded {
  int world_size = 1;
  int workers_of_host = 1;
  int threads = 1;  ///< threads of one worker, to compute and decode
  bool gpu = false;
};

/// Returns one finding per limit. Pure.
std::vector<CheckFinding> limit_findings(const LimitsThere& there, const LimitsNeeded& needed);

}  // namespace pfc
