// Computes the steps of a job. Limits such as max_steps are given in planned steps: steps with as
// many images as when training began. The limits are converted to images, so that the plan holds
// when the number of workers changes.
#pragma once

#include <compare>
#include <cstdint>

#include "common/config/config.h"
#include "data/batch_plan.h"

namespace pfc {

/// Size of an optimizer step: W workers with batches of B images, gradient_acc times.
struct StepBatch {
  std::int64_t world_size = 0;
  std::int64_t batch_size = 0;
  std::int64_t gradient_acc = 0;
  [[nodiscard]] std::int64_t micro_batch() const { return world_size * batch_size; }
  [[nodiscard]] std::int64_t images() const { return micro_batch() * gradient_acc; }
  friend auto operator<=>(const StepBatch&, const StepBatch&) = default;
};

/// Progress of a trained state. States of one job are ordered by their images.
struct TrainedSoFar {
  std::int64_t images = 0;
  std::int64_t step = 0;   ///< optimizer steps of any size
  DataPlace next = {};     ///< position of the next image
  StepBatch planned = {};  ///< size of the steps when training began; all 0 before that
  friend auto operator<=>(const TrainedSoFar&, const TrainedSoFar&) = default;
};

/// Step numbers count the optimizer steps since training began. Planned steps have the original
/// batch. Planned steps are what num_epoch, max_steps, warmup_epoch, the learning rate's schedule,
/// save_every_steps and verbose count. Both numbers are equal until the batch changes.
struct StepPlan {
  StepBatch batch = {};
  std::int64_t images = 0;  ///< images in the data set
  TrainedSoFar start = {};  ///< where this plan starts
  /// Whole planned steps in num_epoch epochs, at least 1: length of the learning rate's schedule.
  std::int64_t total_steps = 0;
  std::int64_t planned_steps = 0;  ///< end of the job: total_steps, or max_steps if smaller
  std::int64_t warmup_steps = 0;   ///< planned steps in warmup_epoch epochs, rounded down
  /// Number of the last step: the first one that reaches planned_steps.
  std::int64_t last_step = 0;

  [[nodiscard]] std::int64_t first_step() const { return start.step + 1; }
  [[nodiscard]] std::int64_t micro_batches_per_epoch() const {
    return images / batch.micro_batch();
  }
  /// Returns whether steps have another batch than planned.
  [[nodiscard]] bool resized() const { return batch != start.planned; }
  /// Returns the order of this worker's images.
  [[nodiscard]] BatchPlan batches(Rank rank) const;
  /// Returns the state after a step. REQUIRES: step >= start.step.
  [[nodiscard]] TrainedSoFar after(std::int64_t step) const;
  /// Returns the full micro-batches of planned size in one pass over the images; at least 1.
  [[nodiscard]] std::int64_t planned_micro_batches_per_epoch() const;
  /// Converts images to planned steps; may be fractional after a change of the batch.
  [[nodiscard]] double planned_steps_of(std::int64_t images_trained) const;
  /// Returns the epochs of planned size that were trained before this step; exact where it is a
  /// whole number.
  [[nodiscard]] double epochs_before(std::int64_t step) const;
  /// Returns whether `step` reaches a multiple of `every` planned steps; false if `every` is 0.
  [[nodiscard]] bool reaches_multiple(std::int64_t step, std::int64_t every) const;
};

/// Computes the plan. Pure. `start`: earlier progress; by default none. Throws InputError when
/// there are fewer images than one micro-batch needs.
StepPlan plan_steps(const JobConfig& job, int world_size, std::int64_t images,
                    const TrainedSoFar& start = {});

}  // namespace pfc
