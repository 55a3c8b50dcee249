#include "worker/schedule/head_schedule.h"

#include <algorithm>
#include <cmath>

#include "worker/head/sampling/class_sampler.h"

namespace pfc {
namespace {

/// Returns which fraction of its whole rise a margin has covered, after this fraction of the steps.
double risen(MarginIncrease increase, double steps) {
  if (increase == MarginIncrease::kLinear || steps == 0 || steps == 1) return steps;
  return 1 - std::pow(1e-3 / (1 + 1e-6), steps);
}

Margin margin_after(const MarginUpdate& update, const Margin& last, double epochs) {
  const double steps =
      std::clamp((epochs - update.start_epoch) / (update.end_epoch - update.start_epoch), 0.0, 1.0);
  const double share = risen(update.increase, steps);
  const Margin& first = update.initial;
  return {.m1 = std::lerp(first.m1, last.m1, share),
          .m2 = std::lerp(first.m2, last.m2, share),
          .m3 = std::lerp(first.m3, last.m3, share)};
}

}  // namespace

HeadSettings head_settings(const JobConfig& job, const StepPlan& plan, std::int64_t step) {
  const double epochs = plan.epochs_before(step);
  const double rate = job.sample_rate.at(epochs);
  return {.margin =
              job.margin_update ? margin_after(*job.margin_update, job.margin, epochs) : job.margin,
          .sample_rate = rate,
          .drawn_logit = job.sample_correction ? drawn_logit(rate) : 0};
}

}  // namespace pfc
