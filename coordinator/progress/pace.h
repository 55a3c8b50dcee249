// How long the job's own steps, checkpoints and evaluations take, and so how long a worker may keep
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
  std::chrono::milliseconds floor{30'000};     ///< no limit is shorter
  double factor = 10;                          ///< times the longest that was seen lately
  std::chrono::milliseconds unknown{300'000};  ///< where nothing was seen: the peers' own limit
};

/// What a worker does in a phase, as far as its length is concerned.
enum class Activity { kStep, kCheckpoint, kEvaluation };

/// kCheckpoint: whatever writes files, also logs and the model. Phases that are not known are those
/// of a step. Pure.
Activity activity_of(std::string_view phase);

/// Of one generation: the first steps of the next one are first steps again.
class Pace {
 public:
  /// A worker has told of phases that have ended, and, where `step_done`, of a step or more.
  void add(const proto::Progress& progress, bool step_done);

  /// For how long the others may wait for a worker in this phase. A step: factor times the slowest
  /// of the last 64. An evaluation: factor times the longest of this generation, and at least four
  /// floors. Before three steps, or the first evaluation, `unknown`: a first step touches all
  /// memory for the first time. A checkpoint: factor times the longest, and at least `unknown`,
  /// because the last one waits for the disk, and the others need not. Never less than the floor.
  /// Pure.
  [[nodiscard]] std::chrono::milliseconds limit(std::string_view phase,
                                                const PaceLimits& limits) const;

 private:
  struct Step {
    std::int64_t number = 0;
    double seconds = 0;  ///< of the slowest worker
  };
  std::deque<Step> steps_;  ///< the last ones
  std::int64_t first_ = 0;  ///< the number of the first that was seen
  double checkpoint_ = 0;   ///< seconds of the longest; 0: none was seen
  double evaluation_ = 0;
};

}  // namespace pfc
