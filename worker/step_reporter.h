// What a worker tells of its training: rank 0 in the log and in metrics.jsonl, and every worker to
// the coordinator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "worker/input/input_watch.h"
#include "worker/report/coordinator_client.h"
#include "worker/report/progress_reporter.h"
#include "worker/report/training_log.h"
#include "worker/tensorboard/tensorboard_log.h"
#include "worker/training_session.h"

namespace pfc {

/// When rank 0 can no longer log during training, or its output folder is no longer there, all
/// workers are asked to stop (TrainingSession::end_early), and failure() says why. Used by the
/// training thread. Throws what the phases throw that it times, and no StorageError of the log
/// after the constructor.
class StepReporter {
 public:
  /// Borrows both; `coordinator` may be null. Opens the log on rank 0: throws StorageError.
  StepReporter(TrainingSession& session, CoordinatorClient* coordinator);

  void start();  ///< before the first step
  /// Before a step begins.
  void begin_step() { calls_before_ = s_.step_comm->counters().call_seconds; }
  /// After a step that is complete, which took so long.
  void step(const StepStats& stats, double seconds);
  /// How long training waited after a step, for the time that is left.
  void evaluated(double seconds) { remaining_.add_evaluation(seconds); }
  void checkpointed(std::int64_t step, double seconds) { remaining_.add_checkpoint(step, seconds); }

  void evaluation(std::int64_t step, const VerificationResult& result);
  void evaluation(std::int64_t step, const RetrievalResult& result);
  void checkpoint(const std::vector<CheckpointEvent>& events);
  /// All workers have the state after this step in memory; 0: none yet.
  void in_memory(std::int64_t step);
  void message(const std::string& text);
  /// `step` is the last one that is complete. reason: "completed", "stopped" or "failed".
  void end(std::int64_t step, const std::string& reason);

  /// Whether the output folder is still there and this job's. One that was removed is made anew, so
  /// that the state can be saved there.
  void check_output();

  /// Why this worker cannot go on, although its state is sound; empty: it can.
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
  /// So that no step is charged for what happened before it.
  void take_phases_between_steps();
  [[nodiscard]] StepRecord step_record(const StepStats& stats, double seconds,
                                       const std::vector<PhaseTimer::Sample>& phases);
  void log_window(const StepRecord& record);
  /// Collective, after steps that the sampler wants.
  void sample(std::int64_t step);
  /// Of this step: what it computed, and how long it waited for its own data.
  [[nodiscard]] double own_seconds(const StepStats& stats, double seconds,
                                   const std::vector<PhaseTimer::Sample>& phases) const;
  [[nodiscard]] std::string device() const;
  /// What is the same in every report, and the step that a generation can go on from.
  [[nodiscard]] Progress progress_of_session() const;
  [[nodiscard]] Progress progress(const StepRecord& r) const;
  /// Of all epochs since the start.
  std::uint64_t skipped_images(const StepStats& stats);

  TrainingSession& s_;
  std::optional<ProgressReporter> progress_;
  std::optional<TrainingLog> log_;
  std::optional<TensorBoardLog> board_;
  std::string failure_;
  const TimePoint start_;
  std::map<std::string, double> phase_seconds_;  // of all phases so far
  Progress so_far_;                              // of all steps, without what is of the last one
  double calls_before_ = 0;  // seconds in collectives of the step's Comm before this step
  std::int64_t epoch_ = 0;
  std::uint64_t skipped_before_ = 0;    // in epochs before this one
  std::uint64_t skipped_in_epoch_ = 0;  // in this epoch
  std::uint64_t gpu_memory_bytes_ = 0;
  RemainingTime remaining_;
  InputWatch input_watch_;

  // Of the steps since the last log line.
  TimePoint window_start_;
  double window_loss_ = 0;
  std::int64_t window_samples_ = 0;
  std::int64_t window_steps_ = 0;
};

}  // namespace pfc
