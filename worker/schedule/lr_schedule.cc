#include "worker/schedule/lr_schedule.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"

namespace pfc {

LrScheduler::LrScheduler(const LrSchedule& schedule, double base, const StepPlan& plan)
    : schedule_(schedule), base_(base), plan_(plan) {
  check(plan.warmup_steps >= 0 && plan.total_steps > 0 && plan.batch.micro_batch() > 0 &&
            plan.start.planned.micro_batch() > 0,
        "LrScheduler: bad plan");
}

double LrScheduler::at(std::int64_t step) const {
  check(step >= plan_.first_step(), "LrScheduler: a step before the plan begins");
  const std::int64_t images = plan_.after(step - 1).images;
  const double done = plan_.planned_steps_of(images);
  const auto warm = static_cast<double>(plan_.warmup_steps);
  if (done + 1 <= warm) return base_ * (done + 1) / warm;
  if (schedule_.kind == ScheduleKind::kMultistep) {
    const std::int64_t micro_batches = images / plan_.start.planned.micro_batch();
    const auto drops = std::ranges::count_if(schedule_.epochs, [&](std::int64_t epoch) {
      return micro_batches >= epoch * plan_.planned_micro_batches_per_epoch();
    });
    return base_ * std::pow(schedule_.gamma, static_cast<double>(drops));
  }
  const auto total = static_cast<double>(plan_.total_steps);
  if (done >= total) return 0.0;
  if (done <= warm) return base_;
  return base_ * std::pow(1.0 - (done - warm) / (total - warm), schedule_.power);
}

double lr_factor(const JobConfig& job, const StepPlan& plan) {
  LrScaling scaling = job.lr_scaling;
  if (scaling == LrScaling::kAuto) {
    scaling = job.optimizer == OptimizerKind::kSgd ? LrScaling::kLinear : LrScaling::kSqrt;
  }
  if (scaling == LrScaling::kNone || plan.batch.world_size == plan.start.planned.world_size)
    return 1;
  const double images =
      static_cast<double>(plan.batch.images()) / static_cast<double>(plan.start.planned.images());
  return scaling == LrScaling::kLinear ? images : std::sqrt(images);
}

}  // namespace pfc
