// Whether a host can write the job's output folder, how fast, and whether there is room.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "worker/memory/memory_plan.h"
#include "worker/report/check_finding.h"

namespace pfc {

/// While it lives there is a folder at `path`. Removes what it has made where that is empty. Throws
/// StorageError.
class FolderForAWhile {
 public:
  explicit FolderForAWhile(std::filesystem::path path);
  ~FolderForAWhile();
  FolderForAWhile(const FolderForAWhile&) = delete;
  FolderForAWhile& operator=(const FolderForAWhile&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  ///< the innermost first
};

/// Bytes of one checkpoint of the job, as its files hold them.
std::uint64_t checkpoint_bytes(const PlannedJob& planned, const MemoryPlan& plan);

/// Bytes that the job's checkpoints take in its output folder at most: of all that it keeps, and of
/// the one that it writes before it removes the oldest.
std::uint64_t checkpoints_bytes(const PlannedJob& planned, const MemoryPlan& plan);

/// Of the host of rank 0, which writes there. Leaves nothing behind. `needed`: bytes.
std::vector<CheckFinding> output_findings(const JobConfig& job, std::uint64_t needed);

/// Of another host that shares the folder: its workers write there too.
std::vector<CheckFinding> shared_output_findings(const JobConfig& job);

}  // namespace pfc
