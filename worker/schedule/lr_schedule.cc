#include "worker/schedule/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/error.h"

namespace pfc {
namespace {

/// Goes from `from` to `to` along half a period of the cosine; `part` is 0 to 1.
double half_cosine(double from, double to, double part) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

/// Returns the factor of the rate after `done` of `total` steps, as PyTorch's OneCycleLR with
/// anneal_strategy "cos" and three_phase false.
double one_cycle(const LrSchedule& s, double done, double total) {
  const double first = 1 / s.div_factor, peak = s.pct_start * total - 1, last = total - 1;
  if (done < peak) return half_cosine(first, 1, done / peak);
  return half_cosine(1, first / s.final_div_factor, std::min(1.0, (done - peak) / (last - peak)));
}

}  // namespace

LrScheduler::LrScheduler(const LrSchedule& schedule, double base, const StepPlan& plan)
    : schedule_(schedule), base_(base), plan_(plan) {
  check(plan.warmup_steps >= 0 && plan.total_steps > 0 && plan.batch.micro_batch() > 0 &&
            plan.start.planned.micro_batch() > 0,
        "LrScheduler: bad plan");
}

double LrScheduler::at(std::int64_t step) const {
  check(step >= plan_.first_step(), "LrScheduler: a step before the plan begins");
  const double done = plan_.planned_steps_of(plan_.after(step - 1).images);
  const auto warm = static_cast<double>(plan_.warmup_steps);
  const auto total = static_cast<double>(plan_.total_steps);
  if (schedule_.kind == ScheduleKind::kOneCycle) return base_ * one_cycle(schedule_, done, total);
  if (done + 1 <= warm) return base_ * (done + 1) / warm;
  if (schedule_.kind == ScheduleKind::kMultistep) {
    const double epochs = plan_.epochs_before(step);
    const auto drops = std::ranges::count_if(
        schedule_.epochs, [&](std::int64_t epoch) { return epochs >= static_cast<double>(epoch); });
    return base_ * std::pow(schedule_.gamma, static_cast<double>(drops));
  }
  const double part = done >= total ? 1 : done <= warm ? 0 : (done - warm) / (total - warm);
  return base_ * (schedule_.kind == ScheduleKind::kCosine
                      ? half_cosine(1, schedule_.final_factor, part)
                      : std::pow(1 - part, schedule_.power));
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
