// Keys of the coordinator's journal (proto/journal.proto).
#pragma once

#include <string>

#include "coordinator/journal/journal_file.h"

namespace pfc::journal_keys {

inline constexpr const char* kOwn = "coordinator";     ///< SavedCoordinator
inline constexpr const char* kHost = "host/";          ///< and the host's name: HostState
inline constexpr const char* kRun = "run";             ///< see saved_run()
inline constexpr const char* kJob = "job";             ///< SavedJob of the run
inline constexpr const char* kWorker = "worker/";      ///< and the rank: WorkerState
inline constexpr const char* kProgress = "progress/";  ///< and the rank: Progress
inline constexpr const char* kQueue = "queue";         ///< SavedQueue
inline constexpr const char* kQueued = "queued/";      ///< and the job's id: SavedJob
inline constexpr const char* kEnded = "ended";         ///< EndedJobs
inline constexpr const char* kMetrics = "metrics";     ///< SavedMetrics

/// Returns the value at `key`; empty if there is none.
inline std::string value_at(const JournalValues& saved, const std::string& key) {
  const auto found = saved.find(key);
  return found == saved.end() ? "" : found->second;
}

/// Returns the message at `key`; empty if there is none or it cannot be parsed.
template <typename Message>
Message read(const JournalValues& saved, const std::string& key) {
  Message message;
  if (!message.ParseFromString(value_at(saved, key))) return {};
  return message;
}

}  // namespace pfc::journal_keys
