#include "worker/schedule/lr_schedule.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"

namespace pfc {

LrScheduler::LrScheduler(const LrSchedule& schedule, double base, const StepPlan& plan)
    : schedule_(schedule), base_(base), plan_(plan) {
  check(plan.warmup_steps >= 0 && plan.total_steps > 0 && plan.micro_batches_per_step > 0 &&
            plan.micro_batches_per_epoch > 0,
        "LrScheduler: bad steps");
}

double LrScheduler::at(std::int64_t step) const {
  check(step >= 1, "LrScheduler: steps count from 1");
  const std::int64_t warm = plan_.warmup_steps;
  if (step <= warm) return base_ * static_cast<double>(step) / static_cast<double>(warm);
  if (schedule_.kind == ScheduleKind::kMultistep) {
    const std::int64_t done = (step - 1) * plan_.micro_batches_per_step;
    const auto drops = std::ranges::count_if(schedule_.epochs, [&](std::int64_t epoch) {
      return done >= epoch * plan_.micro_batches_per_epoch;
    });
    return base_ * std::pow(schedule_.gamma, static_cast<double>(drops));
  }
  if (step > plan_.total_steps) return 0.0;
  const auto done = static_cast<double>(step - 1 - warm);
  return base_ *
         std::pow(1.0 - done / static_cast<double>(plan_.total_steps - warm), schedule_.power);
}

}  // namespace pfc
