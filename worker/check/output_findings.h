// Checks whether a host can write the job's output folder, how fast, and its free space.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "worker/coordinator_link/check_finding.h"
#include "worker/memory/memory_plan.h"

namespace pfc {

/// Creates the folder `path` and missing parent folders. The destructor removes those that the
/// constructor created, if they are empty. Throws StorageError.
class FolderForAWhile {
 public:
  explicit FolderForAWhile(std::filesystem::path path);
  ~FolderForAWhile();
  FolderForAWhile(const FolderForAWhile&) = delete;
  FolderForAWhile& operator=(const FolderForAWhile&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  ///< innermost first
};

/// Returns the size of one checkpoint's files in bytes, without tables in files of their own.
std::uint64_t checkpoint_bytes(const PlannedJob& planned, const MemoryPlan& plan);

/// Returns the maximum size in bytes of the job's checkpoints in its output folder: all that it
/// keeps, plus the one that it writes before it removes the oldest. With centre_storage disk also
/// the files of the class centres, and an estimate of their logs, one for each checkpoint. Assumes
/// that all workers see the folder.
std::uint64_t checkpoints_bytes(const PlannedJob& planned, const MemoryPlan& plan);

/// Checks the output folder on the host of rank 0. Leaves nothing behind. `needed` is in bytes.
std::vector<CheckFinding> output_findings(const JobConfig& job, std::uint64_t needed);

/// Checks the output folder on another host that shares it, because that host's workers write
/// checkpoints there too.
std::vector<CheckFinding> shared_output_findings(const JobConfig& job);

}  // namespace pfc
