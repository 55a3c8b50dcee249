#include "worker/schedule/lr_schedule.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"

namespace pfc {

LrScheduler::LrScheduler(const LrSchedule& schedule, double base, std::int64_t warmup_steps,
                         std::int64_t total_steps, double steps_per_epoch)
    : schedule_(schedule),
      base_(base),
      warmup_steps_(warmup_steps),
      total_steps_(total_steps),
      steps_per_epoch_(steps_per_epoch) {
  check(warmup_steps >= 0 && total_steps > 0 && steps_per_epoch > 0, "LrScheduler: bad steps");
}

double LrScheduler::at(std::int64_t step) const {
  check(step >= 1, "LrScheduler: steps count from 1");
  if (step <= warmup_steps_) {
    return base_ * static_cast<double>(step) / static_cast<double>(warmup_steps_);
  }
  if (schedule_.kind == ScheduleKind::kMultistep) {
    const double epochs_done = static_cast<double>(step - 1) / steps_per_epoch_;
    const auto drops = std::ranges::count_if(schedule_.epochs, [&](std::int64_t epoch) {
      return epochs_done >= static_cast<double>(epoch);
    });
    return base_ * std::pow(schedule_.gamma, static_cast<double>(drops));
  }
  if (step >= total_steps_) return 0.0;
  const double done =
      static_cast<double>(step - warmup_steps_) / static_cast<double>(total_steps_ - warmup_steps_);
  return base_ * std::pow(1.0 - done, schedule_.power);
}

}  // namespace pfc
