#include "worker/schedule/step_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "common/counted.h"
#include "common/error.h"

namespace pfc {
namespace {

/// How many whole micro-batches so many epochs have. An epoch's number is the double nearest to a
/// decimal, so the product may fall short of a whole number by its two roundings: 0.29 * 100 is
/// below 29.
std::int64_t whole_micro_batches(std::int64_t per_epoch, double epochs) {
  const double product = static_cast<double>(per_epoch) * epochs;
  constexpr double kTwoRoundings = std::numeric_limits<double>::epsilon();
  return static_cast<std::int64_t>(std::floor(product + product * kTwoRoundings));
}

}  // namespace

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
  plan.micro_batches_per_step = job.gradient_acc;
  const auto whole_steps = [&](double epochs) {
    return whole_micro_batches(plan.micro_batches_per_epoch, epochs) / job.gradient_acc;
  };
  plan.total_steps = std::max<std::int64_t>(1, whole_steps(job.num_epoch));
  plan.last_step = job.max_steps > 0 ? std::min(plan.total_steps, job.max_steps) : plan.total_steps;
  plan.warmup_steps = whole_steps(job.warmup_epoch);
  return plan;
}

std::int64_t steps_done(const StepPlan& plan, std::int64_t images_seen) {
  return images_seen / plan.global_batch;
}

}  // namespace pfc
