// The learning rate of each optimizer step l = 1 .. T: base * l / warm while l <= warm, then the
// polynomial decay base * (1 - (l - 1 - warm) / (T - warm))^power, which is that of arcface_torch's
// PolynomialLRWarmup, or the multi-step decay of the epochs that are done.
#pragma once

#include <cstdint>

#include "common/config/config.h"
#include "worker/schedule/step_plan.h"

namespace pfc {

/// Immutable.
class LrScheduler {
 public:
  /// base: the rate when the warm-up ends. Of the plan it takes the steps of the warm-up and of the
  /// whole schedule, and for multi-step decay the micro-batches of an epoch and of a step.
  LrScheduler(const LrSchedule& schedule, double base, const StepPlan& plan);
  /// The learning rate of a step: above 0 up to the plan's total_steps, where base is; beyond them,
  /// a polynomial decay has reached 0. REQUIRES: step >= 1.
  [[nodiscard]] double at(std::int64_t step) const;

 private:
  LrSchedule schedule_;
  double base_;
  StepPlan plan_;
};

}  // namespace pfc
