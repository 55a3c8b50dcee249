// Reports training progress: rank 0 to the log and metrics.jsonl, every worker to the
// coordinator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "worker/coordinator_link/coordinator_client.h"
#include "worker/coordinator_link/progress_reporter.h"
#include "worker/input/input_watch.h"
#include "worker/report/training_log.h"
#include "worker/tensorboard/tensorboard_log.h"
#include "worker/training_session.h"

namespace pfc {

/// If rank 0 cannot log any more, or its output folder is gone, asks all workers to stop
/// (TrainingSession::end_early); failure() gives the reason. Used by the training thread. Rethrows
/// errors of the timed phases. After the constructor, never throws StorageError because of the log.
class StepReporter {
 public:
  /// Borrows its arguments; `coordinator` may be null. On rank 0, opens the log, and throws
  /// StorageError if that fails.
  StepReporter(TrainingSession& session, CoordinatorClient* coordinator);

  void start();  ///< call before the first step
  /// Call before a step begins.
  void begin_step() { calls_before_ = s_.comms.step->counters().call_seconds; }
  /// Call after a complete step. `seconds`: the duration of the step.
  void step(const StepStats& stats, double seconds);
  /// Adds the duration of an evaluation to the estimate of the remaining time.
  void evaluated(double seconds) { remaining_.add_evaluation(seconds); }
  void checkpointed(std::int64_t step, double seconds) { remaining_.add_checkpoint(step, seconds); }

  void evaluation(std::int64_t step, const VerificationResult& result);
  void evaluation(std::int64_t step, const RetrievalResult& result);
  void evaluation(std::int64_t step, const ClassificationResult& result);
  void checkpoint(const std::vector<CheckpointEvent>& events);
  /// Sets the newest step whose state all workers have in memory; 0: none yet.
  void in_memory(std::int64_t step);
  void message(const std::string& text);
  /// `step`: the last complete step. reason: "completed", "stopped" or "failed".
  void end(std::int64_t step, const std::string& reason);

  /// Checks that the output folder still exists and belongs to this job. Creates it again if it
  /// was removed, so that the state can be saved there.
  void check_output();

  /// Why this worker cannot continue although its state is sound; empty: it can.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  template <typename Write>
  void to_log(Write write) {
    write_to(log_, write);
  }
  template <typename Write>
  void to_board(Write write) {
    write_to(board_, write);
  }
  template <typename Log, typename Write>
  void write_to(std::optional<Log>& log, Write write) {
    if (!log) return;
    try {
      write(*log);
    } catch (const StorageError& error) {
      fail(error.what());
    }
  }

  void fail(const std::string& why);
  void add(const std::vector<PhaseTimer::Sample>& samples);
  void add(const StepStats& stats, double seconds, const std::vector<PhaseTimer::Sample>& phases);
  void count(const CheckpointEvent& published);
  void saved(std::int64_t step);
  /// Removes the phases between steps from the timer, so that they do not count as part of the next
  /// step.
  void take_phases_between_steps();
  [[nodiscard]] StepRecord step_record(const StepStats& stats, double seconds,
                                       const std::vector<PhaseTimer::Sample>& phases);
  void log_window(const StepRecord& record);
  /// Collective. Call after the steps that the sampler selects.
  void sample(std::int64_t step);
  /// Seconds of this step in which this worker computed, or waited for its own data.
  [[nodiscard]] double own_seconds(const StepStats& stats, double seconds,
                                   const std::vector<PhaseTimer::Sample>& phases) const;
  [[nodiscard]] std::string device() const;
  /// Returns the values that all reports share, and the step from which a generation can resume.
  [[nodiscard]] Progress progress_of_session() const;
  [[nodiscard]] Progress progress(const StepRecord& r) const;
  /// Images skipped since the start, over all epochs.
  std::uint64_t skipped_images(const StepStats& stats);

  TrainingSession& s_;
  std::optional<ProgressReporter> progress_;
  std::optional<TrainingLog> log_;
  std::optional<TensorBoardLog> board_;
  std::string failure_;
  const TimePoint start_;
  std::map<std::string, double> phase_seconds_;  // total of each phase so far
  Progress so_far_;          // totals of all steps; without the values of the last step
  double calls_before_ = 0;  // seconds in collectives of the step's Comm, before this step
  std::int64_t epoch_ = 0;
  std::uint64_t skipped_before_ = 0;    // number of images skipped in earlier epochs
  std::uint64_t skipped_in_epoch_ = 0;  // number of images skipped in this epoch
  std::uint64_t gpu_memory_bytes_ = 0;
  RemainingTime remaining_;
  InputWatch input_watch_;

  // Totals over the steps since the last log line.
  TimePoint window_start_;
  double window_loss_ = 0;
  double window_distillation_loss_ = 0;
  double window_logits_loss_ = 0;
  std::int64_t window_samples_ = 0;
  std::int64_t window_steps_ = 0;
};

}  // namespace pfc
