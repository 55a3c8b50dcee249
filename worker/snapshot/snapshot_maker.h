// Takes snapshots while training goes on. All workers take them after the same steps: the signals
// that travel with the batches decide, and rank 0's clock says when.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "comm/comm.h"
#include "common/clock.h"
#include "common/trace/recorder.h"
#include "worker/input/step_input.h"
#include "worker/snapshot/snapshot_store.h"

namespace pfc {

struct SnapshotOptions {
  Membership membership;
  std::vector<Rank> keepers;  ///< keepers_of() the workers' hosts
  double seconds = 60;        ///< between two snapshots
  TraceTrack track = {};      ///< records when this worker sends one
};

/// fill() may be called from any thread; the rest belongs to the training thread. The copy to host
/// memory is made there, and a thread of this object's own sends it to the worker that keeps it.
class SnapshotMaker {
 public:
  /// Borrows both. Only the thread of this object uses `comm`, which is of host memory.
  SnapshotMaker(SnapshotStore& store, Comm& comm, SnapshotOptions options);
  /// Aborts the Comm: a snapshot that is not complete stays as far as it has come.
  ~SnapshotMaker();
  SnapshotMaker(const SnapshotMaker&) = delete;
  SnapshotMaker& operator=(const SnapshotMaker&) = delete;

  /// Rank 0 asks for a snapshot: for the first one at once, then when `seconds` have passed since
  /// the last one was begun and all workers have it. A request is 1 + the number of snapshots that
  /// were begun when it was made, so that one which comes late asks for none.
  void fill(WorkerSignals& mine) const;

  /// Takes a snapshot of `state` if all workers were asked for one; `trained` says how far the
  /// state has been trained. Returns the step of the newest snapshot that all workers have; 0:
  /// none. Throws CommError when a snapshot could not be sent or received.
  std::int64_t after_step(const TrainingState& state, const TrainedSoFar& trained,
                          const WorkerSignals& all);

 private:
  void begin(const TrainingState& state, const TrainedSoFar& trained);
  void settle();  ///< the snapshot that was begun is the newest one
  void run(Snapshot& snapshot, const RowBytes& row_bytes, std::int64_t classes);
  void send_rows(Snapshot& snapshot, const RowBytes& row_bytes, std::int64_t classes);

  SnapshotStore& store_;
  Comm& comm_;
  const SnapshotOptions options_;
  std::thread thread_;
  SnapshotId begun_id_;             // the training thread's
  std::int64_t all_have_ = 0;       // the training thread's
  std::exception_ptr error_;        // the thread's, until it is joined
  std::atomic<bool> ended_ = true;  // the thread has
  // fill() reads both from another thread. last_time_ is written first, so that a thread that sees
  // the new number sees its time as well.
  std::atomic<std::int64_t> begun_ = 0;  // how many
  std::atomic<Clock::rep> last_time_;
};

}  // namespace pfc
