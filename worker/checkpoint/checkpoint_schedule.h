// Decides after which steps checkpoints are begun and published. All workers decide the same
// without an extra collective: the signals sent with each micro-batch say whose part is on disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "comm/comm.h"
#include "common/clock.h"
#include "common/config/config.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/input/step_input.h"

namespace pfc {

/// The beginning or the publication of a checkpoint.
struct CheckpointEvent {
  std::int64_t step = 0;    ///< step whose state the checkpoint holds
  bool published = false;   ///< false: it was begun. true: it is whole and has its final name
  double seconds = 0;       ///< seconds that the training thread was blocked
  double since_begin = 0;   ///< seconds from begin to publication; published checkpoints only
  std::uint64_t bytes = 0;  ///< size of all files; set on rank 0 for published checkpoints
};

/// after_step() and finish() belong to the training thread and return what they have done, in
/// order. fill() belongs to any thread. All throw StorageError if a checkpoint was not written.
class CheckpointSchedule {
 public:
  /// `begin` starts to write a step's state. With `last`, no step follows, so the state need not
  /// be copied first. The writer waits and publishes. Borrows everything; the training thread
  /// uses `comm`.
  using Begin = std::function<void(std::int64_t step, bool last)>;
  CheckpointSchedule(const JobConfig& job, const StepPlan& plan, Begin begin,
                     CheckpointWriter& writer, Comm& comm);

  /// Publishes a checkpoint whose parts are all on disk. Begins one when it is due: after every
  /// save_every_steps planned steps, or when rank 0 has requested one because save_every_seconds
  /// have passed.
  std::vector<CheckpointEvent> after_step(std::int64_t step, const WorkerSignals& all);

  /// Writes, waits for and publishes a checkpoint of `step`, the last step.
  std::vector<CheckpointEvent> finish(std::int64_t step);

  /// Sets this worker's checkpoint signals. A request is 1 + the step of the newest checkpoint
  /// begun at the time of the request. Signals are sent ahead of the step, so some arrive after
  /// the requested checkpoint has begun; the number identifies those. Throws StorageError if the
  /// checkpoint could not be written.
  void fill(WorkerSignals& mine);

 private:
  [[nodiscard]] bool due(std::int64_t step, const WorkerSignals& all) const;
  void start(std::int64_t step, bool last);
  void settle();  ///< waits until the pending checkpoint is on disk everywhere, and publishes it
  void publish();
  void record(std::int64_t step, bool published, TimePoint since);

  const JobConfig& job_;
  const StepPlan& plan_;
  const Begin begin_;
  CheckpointWriter& writer_;
  Comm& comm_;
  std::int64_t pending_ = 0;           ///< step of the checkpoint begun but not published; 0: none
  TimePoint pending_since_;            ///< when it was begun
  std::uint64_t published_bytes_ = 0;  ///< size of the last published checkpoint, on rank 0
  std::vector<CheckpointEvent> events_;  ///< events of the current call
  // fill() reads both from another thread. last_time_ is written first, so a thread that sees the
  // new step also sees its time.
  std::atomic<std::int64_t> last_ = 0;  ///< step of the newest checkpoint begun
  std::atomic<Clock::rep> last_time_;   ///< when it was begun
};

}  // namespace pfc
