// Keys of the coordinator's journal (proto/journal.proto).
#pragma once

#include <string>

#include "coordinator/journal/journal_file.h"

namespace pfc::journal_keys {

inline constexpr const char* kOwn = "coordinator";     ///< SavedCoordinator
inline constexpr const char* kHost = "host/";          ///< followed by its name: SavedHost
inline constexpr const char* kRun = "run";             ///< SavedRun
inline constexpr const char* kJob = "job";             ///< SavedJob, of the run
inline constexpr const char* kWorker = "worker/";      ///< followed by its rank: SavedWorker
inline constexpr const char* kProgress = "progress/";  ///< followed by its rank: Progress
inline constexpr const char* kQueue = "queue";         ///< SavedQueue
inline constexpr const char* kQueued = "queued/";      ///< followed by the job id: SavedJob
inline constexpr const char* kEnded = "ended";         ///< SavedEndedJobs
inline constexpr const char* kMetrics = "metrics";     ///< SavedMetrics

/// Returns the message at `key`; empty if there is none or it cannot be parsed.
template <typename Message>
Message read(const JournalValues& saved, const std::string& key) {
  Message message;
  const auto found = saved.find(key);
  if (found != saved.end() && !message.ParseFromString(found->second)) return {};
  return message;
}

}  // namespace pfc::journal_keys
