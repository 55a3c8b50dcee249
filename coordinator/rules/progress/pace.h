// Measures the job's own steps, checkpoints and evaluations, to decide how long a worker may keep
// the others waiting before it counts as stuck.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>

#include "proto/coordinator.pb.h"

namespace pfc {

struct PaceLimits {
  std::chrono::milliseconds floor{30'000};     ///< minimum of all limits
  double factor = 10;                          ///< multiple of the longest recent duration
  std::chrono::milliseconds unknown{300'000};  ///< limit without measurements; --collective-timeout
};

/// Kind of a phase. The kinds have different usual durations.
enum class Activity { kStep, kCheckpoint, kEvaluation, kSearch };

/// Returns kCheckpoint for every phase that writes files, including logs and the model, and
/// kSearch for the search of neighbours (docs/head.md#hard-negatives). Unknown phases count as
/// kStep. Pure.
Activity activity_of(std::string_view phase);

/// Measures one generation, because each begins with slow first steps.
class Pace {
 public:
  /// Adds a worker's finished phases, and, if `step_done`, the steps that it has completed.
  void add(const proto::Progress& progress, bool step_done);

  /// Returns how long the others may wait for a worker in this phase.
  /// - Step: `factor` times the slowest of the last 64 steps. Before the third step `unknown`,
  ///   because the first steps are slow: they touch memory for the first time.
  /// - Evaluation: `factor` times the longest one, at least four times `floor`. Before the first
  ///   evaluation `unknown`.
  /// - Checkpoint: `factor` times the longest one, at least `unknown`, because a disk can be slow
  ///   for a while.
  /// - Search: `factor` times the longest one, at least `unknown`. Before the first search an hour.
  /// Never less than `floor`. Pure.
  [[nodiscard]] std::chrono::milliseconds limit(std::string_view phase,
                                                const PaceLimits& limits) const;

 private:
  struct Step {
    std::int64_t number = 0;
    double seconds = 0;  ///< time of the slowest worker
  };
  std::deque<Step> steps_;  ///< recent steps
  std::int64_t first_ = 0;  ///< number of the first step seen
  double checkpoint_ = 0;   ///< longest, in seconds; 0: none seen
  double evaluation_ = 0;
  double search_ = 0;
};

}  // namespace pfc
