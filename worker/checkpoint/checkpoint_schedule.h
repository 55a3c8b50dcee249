// Decides after which steps checkpoints are begun and published. All workers decide the same,
// without a collective for it: the signals that travel with each micro-batch tell whose part is on
// disk.
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

/// A checkpoint was begun or published.
struct CheckpointEvent {
  std::int64_t step = 0;    ///< whose state the checkpoint holds
  bool published = false;   ///< false: it was begun. true: it is whole and has its final name
  double seconds = 0;       ///< that the training thread was held up
  double since_begin = 0;   ///< seconds; of a published one
  std::uint64_t bytes = 0;  ///< of all workers' files; of a published one, on rank 0
};

/// after_step() and finish() belong to the training thread, fill() to any thread. Both return what
/// they have done, in order, and throw StorageError when a checkpoint could not be written.
class CheckpointSchedule {
 public:
  /// `begin` starts the writing of a step's state. With `last`, no step follows, so that the state
  /// may be written without copying it first. The writer waits and publishes. Everything is
  /// borrowed; the training thread uses `comm`.
  using Begin = std::function<void(std::int64_t step, bool last)>;
  CheckpointSchedule(const JobConfig& job, const StepPlan& plan, Begin begin,
                     CheckpointWriter& writer, Comm& comm);

  /// Publishes a checkpoint whose parts are all on disk. Begins one when it is due: after every
  /// save_every_steps planned steps, or when rank 0 has asked for one because save_every_seconds
  /// are over.
  std::vector<CheckpointEvent> after_step(std::int64_t step, const WorkerSignals& all);

  /// Writes a checkpoint of `step`, after which no step follows, waits for it and publishes it.
  std::vector<CheckpointEvent> finish(std::int64_t step);

  /// Fills in this worker's checkpoint signals. A request is 1 + the step of the newest checkpoint
  /// that was begun when the request was made. Signals are sent ahead of the step, so some of them
  /// arrive after the checkpoint that they ask for has begun; this number tells them apart. Throws
  /// StorageError when the checkpoint could not be written.
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
  std::int64_t pending_ = 0;  ///< step of the checkpoint that was begun and not published; 0: none
  TimePoint pending_since_;   ///< when it was begun
  std::uint64_t published_bytes_ = 0;    ///< of the last that was published, on rank 0
  std::vector<CheckpointEvent> events_;  ///< of this call
  // fill() reads both from another thread. last_time_ is written first, so that a thread that
  // sees the new step sees its time as well.
  std::atomic<std::int64_t> last_ = 0;  ///< step of the newest checkpoint that was begun
  std::atomic<Clock::rep> last_time_;   ///< when it was begun
};

}  // namespace pfc
