// Chooses the number of compute threads when a job continues. On a CPU, sums are divided among
// threads, so the number of threads affects the last bits of the results.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "common/config/config.h"
#include "common/ids.h"
#include "worker/snapshot/snapshot_store.h"

namespace pfc {

/// The report of one worker to the others.
struct WorkerThreads {
  std::string host;
  int share = 0;            ///< threads_of_worker(); 0 on a GPU
  bool is_chosen = false;   ///< the user has set OMP_NUM_THREADS (threads_are_chosen())
  std::int64_t images = 0;  ///< images on which this worker's newest known state was trained
  std::vector<int> before;  ///< threads that computed this state, by rank; empty: unknown
};

struct ChosenThreads {
  std::vector<int> of_rank;
  std::string message;  ///< one line for the log; empty if no number changes
  bool differ = false;  ///< whether some worker uses another number of threads than before
};

/// Chooses the threads of each worker: its earlier number if that is at most its share and
/// OMP_NUM_THREADS is not set, otherwise its share. Ignores states of another number of workers.
/// REQUIRES: `workers` is by rank. Pure.
ChosenThreads choose_threads(std::span<const WorkerThreads> workers);

/// Returns the threads of the newest state in memory (`snapshots`, may be null) or in the job's
/// `output` folder. Checkpoints of other jobs are considered only on rank 0, and only if the job
/// resumes. Leaves `host` and `share` empty.
WorkerThreads threads_of_saved_state(const JobConfig& job, const std::string& job_id, Rank rank,
                                     const SnapshotStore* snapshots);

/// Exchanges the reports of all workers and returns the same choice on each. `host`: a communicator
/// for host memory. Collective. Throws CommError.
ChosenThreads agree_on_threads(Comm& host, const WorkerThreads& mine);

}  // namespace pfc
