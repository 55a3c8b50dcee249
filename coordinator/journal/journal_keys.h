// Under which keys the coordinator's journal has what (proto/journal.proto).
#pragma once

#include <string>

#include "coordinator/journal/journal_file.h"

namespace pfc::journal_keys {

inline constexpr const char* kOwn = "coordinator";     ///< SavedCoordinator
inline constexpr const char* kHost = "host/";          ///< and its name: SavedHost
inline constexpr const char* kRun = "run";             ///< SavedRun
inline constexpr const char* kJob = "job";             ///< SavedJob, of the run
inline constexpr const char* kWorker = "worker/";      ///< and its rank: SavedWorker
inline constexpr const char* kProgress = "progress/";  ///< and its rank: Progress
inline constexpr const char* kQueue = "queue";         ///< SavedQueue
inline constexpr const char* kQueued = "queued/";      ///< and the job's id: SavedJob
inline constexpr const char* kEnded = "ended";         ///< SavedEndedJobs
inline constexpr const char* kMetrics = "metrics";     ///< SavedMetrics

/// The message that is there; empty where there is none, or none that can be read.
template <typename Message>
Message read(const JournalValues& saved, const std::string& key) {
  Message message;
  const auto found = saved.find(key);
  if (found != saved.end() && !message.ParseFromString(found->second)) return {};
  return message;
}

}  // namespace pfc::journal_keys
