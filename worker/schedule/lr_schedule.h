// Computes the learning rate of each optimizer step l = 1 .. T, counted in planned steps
// (step_plan.h; l may be fractional). In the first `warm` steps it is base * l / warm. After them,
// with p = (l - 1 - warm) / (T - warm), it depends on the schedule:
//   polynomial   base * (1 - p)^power, as in arcface_torch's PolynomialLRWarmup
//   multi-step   base * gamma^n after n of the given epochs
//   cosine       base * (f + (1 - f) (1 + cos(pi p)) / 2), f = final_factor, as in PyTorch's
//                CosineAnnealingLR (Loshchilov and Hutter, arXiv:1608.03983, equation 5)
// One cycle is PyTorch's OneCycleLR over all T steps (Smith and Topin, arXiv:1708.07120).
//
// If a job continues with W workers instead of the original W0, the rate is scaled. For SGD it is
// multiplied by the ratio of images per step, W / W0, so that an image moves the weights as far as
// before (Goyal et al., arXiv:1706.02677, section 2.1); for AdamW by sqrt(W / W0) (Malladi et al.,
// arXiv:2205.10287).
#pragma once

#include <cstdint>

#include "common/config/config.h"
#include "worker/schedule/step_plan.h"

namespace pfc {

/// Immutable.
class LrScheduler {
 public:
  /// base: the rate at the end of the warm-up, with the planned number of workers.
  LrScheduler(const LrSchedule& schedule, double base, const StepPlan& plan);
  /// Returns the learning rate of a step. If base is above 0, the rate is above 0 up to
  /// total_steps planned steps; after them it is the last rate of the schedule. REQUIRES: step >=
  /// plan.first_step().
  [[nodiscard]] double at(std::int64_t step) const;

 private:
  LrSchedule schedule_;
  double base_;
  StepPlan plan_;
};

/// If the number of workers is not the planned one, returns the factor that lr_scaling gives for
/// the learning rate: the ratio of images per step, its square root, or 1. Otherwise returns 1,
/// even if batch_size or gradient_acc has changed, because then the user is expected to adapt `lr`.
double lr_factor(const JobConfig& job, const StepPlan& plan);

}  // namespace pfc
