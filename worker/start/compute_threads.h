// Keeps the number of compute threads of a job that continues. Sums on a CPU are divided among the
// threads, so that another number gives other last bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/ids.h"
#include "worker/comm/comm.h"
#include "worker/snapshot/snapshot_store.h"

namespace pfc {

/// What a worker reports to the others.
struct WorkerThreads {
  std::string host;
  int share = 0;            ///< threads_of_worker(); 0 on a GPU, where their number does not matter
  bool is_chosen = false;   ///< a person has set it (threads_are_chosen())
  std::int64_t images = 0;  ///< of the newest state of the job that this worker knows
  std::vector<int> before;  ///< threads with which it was computed, by rank; empty: not known
};

struct ChosenThreads {
  std::vector<int> of_rank;
  std::string message;  ///< one line for the log; empty: nothing has changed
  bool differ = false;  ///< a worker cannot have as many as before, or is not to
};

/// Each worker computes with as many threads as before if no person has chosen another number and
/// that is no more than its share, and otherwise with its share. States of another number of
/// workers do not count. REQUIRES: `workers` is by rank. Pure.
ChosenThreads choose_threads(std::span<const WorkerThreads> workers);

/// The newest state that this worker has in memory (`snapshots`; null: none) or sees at `output`:
/// on rank 0 any if the job resumes, otherwise the job's own. `host` and `share` stay empty.
WorkerThreads threads_of_saved_state(const JobConfig& job, const std::string& job_id, Rank rank,
                                     const SnapshotStore* snapshots);

/// All workers report theirs, and all choose the same. `host`: a communicator for host memory.
/// Collective. Throws CommError.
ChosenThreads agree_on_threads(Comm& host, const WorkerThreads& mine);

}  // namespace pfc
