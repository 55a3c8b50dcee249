// Options of a worker for one generation of a job.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "comm/failures/abort_switch.h"
#include "comm/key_value_store.h"
#include "common/ids.h"
#include "common/machine/host_name.h"
#include "data/doing.h"
#include "worker/snapshot/snapshot_store.h"

namespace pfc {

struct SessionOptions {
  std::string job_id;  ///< set by the coordinator; empty: a random one is chosen
  Membership membership;
  /// Used by workers to find each other. Borrowed; null: one worker.
  KeyValueStore* store = nullptr;
  std::string peer_address;  ///< this host's address, as its peers see it
  std::string host;          ///< this host's name, for messages; empty: the machine's own
  std::chrono::milliseconds connect_timeout{60'000};
  std::chrono::milliseconds collective_timeout{300'000};
  /// Returns whether to end training after a checkpoint. REQUIRES: it is thread-safe.
  std::function<bool()> stop_requested;
  /// The step of the job's newest checkpoint; 0: none. Training does not start from an older state.
  /// If checkpoint_host is not empty, only this host has the checkpoint, in its own output folder;
  /// otherwise all hosts share the folder.
  std::int64_t checkpoint_step = 0;
  std::string checkpoint_host;
  /// Number of workers that trained the job's first step; 0: no step was trained. A job that
  /// restarts at step 1 keeps the plan for this number of workers.
  int planned_workers = 0;
  AbortSwitch* abort_switch = nullptr;  ///< ends waits for other workers. Borrowed, or null
  /// Keeps this worker's snapshots from one generation to the next if the job has `replicate`.
  /// Borrowed; null: no snapshots are taken.
  SnapshotStore* snapshots = nullptr;
  Doing doing = {};  ///< called with what the worker does before its first step
};

/// Returns the name of this worker's host for messages.
inline std::string host_of(const SessionOptions& options) {
  return options.host.empty() ? host_name() : options.host;
}

inline void tell_doing(const SessionOptions& options, const std::string& what) {
  if (options.doing) options.doing(what);
}

}  // namespace pfc
