#include "worker/schedule/step_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "common/counted.h"
#include "common/error.h"

namespace pfc {
namespace {

/// Returns how many whole micro-batches `epochs` epochs have. Allows for two rounding errors,
/// because an epoch number such as 0.29 is stored as the nearest double, and 0.29 * 100 is then
/// below 29.
std::int64_t whole_micro_batches(std::int64_t per_epoch, double epochs) {
  const double product = static_cast<double>(per_epoch) * epochs;
  constexpr double kTwoRoundings = std::numeric_limits<double>::epsilon();
  return static_cast<std::int64_t>(std::floor(product + product * kTwoRoundings));
}

bool reaches_end(const StepPlan& plan, std::int64_t step) {
  return plan.planned_steps_of(plan.after(step).images) >= static_cast<double>(plan.planned_steps);
}

std::int64_t find_last_step(const StepPlan& plan) {
  std::int64_t before = plan.start.step, reached = before;
  for (std::int64_t ahead = 1; !reaches_end(plan, reached); ahead *= 2) {
    before = reached;
    reached = plan.start.step + ahead;
  }
  while (reached - before > 1) {
    const std::int64_t middle = before + (reached - before) / 2;
    (reaches_end(plan, middle) ? reached : before) = middle;
  }
  return reached;
}

}  // namespace

std::int64_t StepPlan::planned_micro_batches_per_epoch() const {
  // A job may continue with a data set that is smaller than one planned micro-batch.
  return std::max<std::int64_t>(images / start.planned.micro_batch(), 1);
}

BatchPlan StepPlan::batches(Rank rank) const {
  return {.images = images,
          .batch_size = batch.batch_size,
          .rank = rank,
          .world_size = static_cast<int>(batch.world_size),
          .start = start.next,
          .first_batch = start.step * batch.gradient_acc};
}

TrainedSoFar StepPlan::after(std::int64_t step) const {
  return {.images = start.images + (step - start.step) * batch.images(),
          .step = step,
          .next = batches(0).place_of(step * batch.gradient_acc),
          .planned = start.planned};
}

double StepPlan::planned_steps_of(std::int64_t images_trained) const {
  return static_cast<double>(images_trained) / static_cast<double>(start.planned.images());
}

double StepPlan::epochs_before(std::int64_t step) const {
  return static_cast<double>(after(step - 1).images) /
         static_cast<double>(start.planned.micro_batch() * planned_micro_batches_per_epoch());
}

bool StepPlan::reaches_multiple(std::int64_t step, std::int64_t every) const {
  if (every == 0 || step <= start.step) return false;
  const auto multiples = [&](std::int64_t of) {
    return std::floor(planned_steps_of(after(of).images) / static_cast<double>(every));
  };
  return multiples(step) > multiples(step - 1);
}

StepPlan plan_steps(const JobConfig& job, int world_size, std::int64_t images,
                    const TrainedSoFar& start) {
  StepPlan plan{
      .batch = {world_size, job.batch_size, job.gradient_acc}, .images = images, .start = start};
  const std::int64_t micro_batch = plan.batch.micro_batch();
  if (images < micro_batch) {
    throw InputError("the data has " + counted(images, "image") + ", fewer than one batch of " +
                     std::to_string(micro_batch) + " (" + counted(world_size, "worker") +
                     " x batch_size " + std::to_string(job.batch_size) + "): lower batch_size");
  }
  StepBatch& planned = plan.start.planned;
  if (planned == StepBatch{}) planned = plan.batch;
  // Sequential order is made of whole micro-batches, so the position is rounded down to the start
  // of one. The change of the batch changes the order anyway (resume.h).
  if (job.read == ReadKind::kSequential) {
    plan.start.next.position -= plan.start.next.position % micro_batch;
  }
  const auto whole_steps = [&](double epochs) {
    return whole_micro_batches(plan.planned_micro_batches_per_epoch(), epochs) /
           planned.gradient_acc;
  };
  plan.total_steps = std::max<std::int64_t>(1, whole_steps(job.num_epoch));
  plan.planned_steps =
      job.max_steps > 0 ? std::min(plan.total_steps, job.max_steps) : plan.total_steps;
  plan.warmup_steps = whole_steps(job.warmup_epoch);
  plan.last_step = find_last_step(plan);
  return plan;
}

}  // namespace pfc
