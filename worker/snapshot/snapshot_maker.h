// Takes snapshots during training. Rank 0 decides by its clock when to take one, and requests it by
// a signal that travels with the batches, so all workers take the snapshot after the same step.
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
  std::vector<Rank> keepers;  ///< result of keepers_of() for the workers' hosts
  double seconds = 60;        ///< between two snapshots
  TraceTrack track = {};      ///< records the sending of snapshots
};

/// fill() may be called from any thread, all other functions only by the training thread. The
/// training thread copies the state in host memory; a background thread sends the copy to the
/// worker that keeps it.
class SnapshotMaker {
 public:
  /// Borrows store and comm. Only the background thread uses `comm`, which is for host memory.
  SnapshotMaker(SnapshotStore& store, Comm& comm, SnapshotOptions options);
  /// Aborts the Comm. An incomplete snapshot keeps the parts that it has.
  ~SnapshotMaker();
  SnapshotMaker(const SnapshotMaker&) = delete;
  SnapshotMaker& operator=(const SnapshotMaker&) = delete;

  /// On rank 0, requests a snapshot: the first one immediately, a later one when `seconds` have
  /// passed since the previous snapshot began and all workers have that snapshot. A request is the
  /// number of the snapshot, counted from 1, so a late request has no effect.
  void fill(WorkerSignals& mine) const;

  /// Takes a snapshot of `state` if one was requested from all workers. `trained`: progress of the
  /// state. Returns the step of the newest snapshot that all workers have; 0 if none. Throws
  /// CommError when a snapshot could not be sent or received.
  std::int64_t after_step(const TrainingState& state, const TrainedSoFar& trained,
                          const WorkerSignals& all);

 private:
  void begin(const TrainingState& state, const TrainedSoFar& trained);
  void settle();  ///< joins the thread; the snapshot that was begun becomes the newest
  void run(Snapshot& snapshot, const RowBytes& row_bytes, const ClassPositions& positions);
  void send_rows(Snapshot& snapshot, const RowBytes& row_bytes, const ClassPositions& positions);

  SnapshotStore& store_;
  Comm& comm_;
  const SnapshotOptions options_;
  std::thread thread_;
  SnapshotId begun_id_;             // used only by the training thread
  std::int64_t all_have_ = 0;       // used only by the training thread
  std::exception_ptr error_;        // used only by thread_ until it is joined
  std::atomic<bool> ended_ = true;  // whether thread_ has ended
  // fill() reads these two members from another thread. last_time_ is written first, so that a
  // thread that sees the new number also sees its time.
  std::atomic<std::int64_t> begun_ = 0;  // number of snapshots begun
  std::atomic<Clock::rep> last_time_;
};

}  // namespace pfc
