// The learning rate of each optimizer step l = 1 .. T: base * l / warm while l <= warm, then the
// polynomial decay base * (1 - (l - 1 - warm) / (T - warm))^power, which is that of arcface_torch's
// PolynomialLRWarmup, or the multi-step decay of the epochs that are done. Here l counts planned
// steps (step_plan.h), whole or not.
//
// Where a job continues with W workers instead of the W0 with which training began, the rate is
// multiplied by the ratio of the images of a step, which is W / W0, for SGD, so that an image moves
// the weights as far as before (Goyal et al., arXiv:1706.02677, section 2.1), and by sqrt(W / W0)
// for AdamW (Malladi et al., arXiv:2205.10287).
#pragma once

#include <cstdint>

#include "common/config/config.h"
#include "worker/schedule/step_plan.h"

namespace pfc {

/// Immutable.
class LrScheduler {
 public:
  /// base: the rate of the planned number of workers when the warm-up ends.
  LrScheduler(const LrSchedule& schedule, double base, const StepPlan& plan);
  /// The learning rate of a step of the plan: above 0 up to total_steps planned steps, where base
  /// is; beyond them, a polynomial decay has reached 0. REQUIRES: step >= plan.first_step().
  [[nodiscard]] double at(std::int64_t step) const;

 private:
  LrSchedule schedule_;
  double base_;
  StepPlan plan_;
};

/// What the learning rate of a job is multiplied by because the number of workers is not the
/// planned one: the ratio of the images of a step, or its square root. 1 where the number of
/// workers is as planned: another batch_size or gradient_acc alone is a person's decision, as is
/// `lr`.
double lr_factor(const JobConfig& job, const StepPlan& plan);

}  // namespace pfc
