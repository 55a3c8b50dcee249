// How many steps a job has: a pure function of the job, the data and the number of workers.
#pragma once

#include <cstdint>

#include "common/config/config.h"

namespace pfc {

/// A step is an optimizer step: gradient_acc micro-batches of W * B images.
struct StepPlan {
  std::int64_t global_batch = 0;             ///< W * B * gradient_acc images a step
  std::int64_t micro_batches_per_epoch = 0;  ///< images / (W * B), the rest of an epoch is dropped
  double steps_per_epoch = 0;                ///< micro_batches_per_epoch / gradient_acc
  std::int64_t total_steps = 0;  ///< of num_epoch: what the learning rate's schedule spans
  std::int64_t last_step = 0;    ///< where the job ends: total_steps, or max_steps before it
  std::int64_t warmup_steps = 0;
};

/// Throws InputError when the data does not fill one micro-batch of all workers.
StepPlan plan_steps(const JobConfig& job, int world_size, std::int64_t images);

/// How many steps of this plan are done when `images_seen` images have been trained on, whatever
/// the global batch was then: a checkpoint of four workers goes on with one or three.
std::int64_t steps_done(const StepPlan& plan, std::int64_t images_seen);

}  // namespace pfc
