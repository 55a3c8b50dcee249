// When checkpoints are begun and made visible, agreed by all workers without a collective of its
// own: the signals that travel with each micro-batch tell whose part is on disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "common/clock.h"
#include "common/config/config.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/comm/comm.h"
#include "worker/input/step_input.h"

namespace pfc {

/// after_step() and finish() belong to the training thread; fill() to any.
class CheckpointSchedule {
 public:
  /// `begin` starts the write of a step's state; `last`: training does not go on, so that it need
  /// not be copied. The writer waits and publishes. All borrowed; `comm` is the training thread's.
  using Begin = std::function<void(std::int64_t step, bool last)>;
  CheckpointSchedule(const JobConfig& job, Begin begin, CheckpointWriter& writer, Comm& comm);

  /// Publishes a checkpoint whose parts are all on disk, and begins one when it is due: every
  /// save_every_steps, or when rank 0 has asked for it because save_every_seconds are over.
  void after_step(std::int64_t step, const WorkerSignals& all);

  /// Writes and publishes a checkpoint of `step`, the last, and waits for it.
  void finish(std::int64_t step);

  /// This worker's checkpoint signals. A request is 1 + the newest checkpoint begun when it was
  /// made: signals travel ahead of the step, so some are still on their way when the checkpoint
  /// that they ask for has begun. Throws StorageError when the write failed.
  void fill(WorkerSignals& mine);

 private:
  [[nodiscard]] bool due(std::int64_t step, const WorkerSignals& all) const;
  void start(std::int64_t step, bool last);
  void settle();  ///< waits until the pending checkpoint is published
  void publish();

  const JobConfig& job_;
  const Begin begin_;
  CheckpointWriter& writer_;
  Comm& comm_;
  std::int64_t pending_ = 0;  ///< begun and not yet published; 0: none
  // Read by fill(): a new last_ is there only once its time is.
  std::atomic<std::int64_t> last_ = 0;  ///< the newest begun
  std::atomic<Clock::rep> last_time_;
};

}  // namespace pfc
