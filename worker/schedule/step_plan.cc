#include "worker/schedule/step_plan.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/counted.h"
#include "common/error.h"

namespace pfc {

StepPlan plan_steps(const JobConfig& job, int world_size, std::int64_t images) {
  const std::int64_t micro_batch = world_size * job.batch_size;
  if (images < micro_batch) {
    throw InputError("the data has " + counted(images, "image") + ", fewer than one batch of " +
                     std::to_string(micro_batch) + " (" + counted(world_size, "worker") +
                     " x batch_size " + std::to_string(job.batch_size) + "): lower batch_size");
  }
  StepPlan plan;
  plan.global_batch = micro_batch * job.gradient_acc;
  plan.micro_batches_per_epoch = images / micro_batch;
  plan.steps_per_epoch =
      static_cast<double>(plan.micro_batches_per_epoch) / static_cast<double>(job.gradient_acc);
  plan.total_steps = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::floor(plan.steps_per_epoch * job.num_epoch)));
  plan.last_step = job.max_steps > 0 ? std::min(plan.total_steps, job.max_steps) : plan.total_steps;
  plan.warmup_steps =
      static_cast<std::int64_t>(std::floor(plan.steps_per_epoch * job.warmup_epoch));
  return plan;
}

std::int64_t steps_done(const StepPlan& plan, std::int64_t images_seen) {
  return images_seen / plan.global_batch;
}

}  // namespace pfc
