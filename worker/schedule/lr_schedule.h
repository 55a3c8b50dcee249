// The learning rate by optimizer step (design §3.1, arcface_torch's lr_scheduler).
#pragma once

#include <cstdint>

#include "common/config/config.h"

namespace pfc {

/// A pure function of the step, 1 .. total_steps.
class LrScheduler {
 public:
  LrScheduler(const LrSchedule& schedule, double base, std::int64_t warmup_steps,
              std::int64_t total_steps, double steps_per_epoch);
  [[nodiscard]] double at(std::int64_t step) const;

 private:
  LrSchedule schedule_;
  double base_;
  std::int64_t warmup_steps_;
  std::int64_t total_steps_;
  double steps_per_epoch_;
};

}  // namespace pfc
