// Whether the limits of this process are enough for a worker of a job.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "worker/report/check_finding.h"

namespace pfc {

/// What the system allows. Empty: there is no limit.
struct LimitsThere {
  std::optional<std::uint64_t> open_files;
  std::optional<std::uint64_t> processes;      ///< that may still be started: ulimit -u, pids.max
  std::optional<std::uint64_t> locked_memory;  ///< bytes
  std::optional<std::uint64_t> shared_memory;  ///< bytes that are free in /dev/shm; none: no folder
  bool has_infiniband = false;
};

/// `root` is for tests: /proc, /sys and /dev/shm are looked for under it.
LimitsThere limits_there(const std::filesystem::path& root = "/");

struct LimitsNeeded {
  int world_size = 1;
  int workers_of_host = 1;
  int threads = 1;  ///< that compute and decode, of one worker
  bool gpu = false;
};

/// One finding for each limit. Pure.
std::vector<CheckFinding> limit_findings(const LimitsThere& there, const LimitsNeeded& needed);

}  // namespace pfc
