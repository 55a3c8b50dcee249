// Computes how many steps a job has.
#pragma once

#include <cstdint>

#include "common/config/config.h"

namespace pfc {

/// W workers, batches of B images. A step is an optimizer step: gradient_acc micro-batches of W *
/// B.
struct StepPlan {
  std::int64_t global_batch = 0;             ///< W * B * gradient_acc images a step
  std::int64_t micro_batches_per_epoch = 0;  ///< images / (W * B); the images left over are dropped
  std::int64_t micro_batches_per_step = 1;   ///< gradient_acc
  /// The whole steps of num_epoch epochs, at least 1: what the learning rate's schedule spans.
  std::int64_t total_steps = 0;
  std::int64_t last_step = 0;  ///< after which the job ends: total_steps, or max_steps if smaller
  std::int64_t warmup_steps = 0;  ///< the whole steps of warmup_epoch epochs
};

/// A pure function. Throws InputError when there are fewer images than one micro-batch has.
StepPlan plan_steps(const JobConfig& job, int world_size, std::int64_t images);

/// How many whole steps of this plan `images_seen` images are. So a job can resume with another
/// number of workers, and so another global batch, than its checkpoint was written with.
std::int64_t steps_done(const StepPlan& plan, std::int64_t images_seen);

}  // namespace pfc
