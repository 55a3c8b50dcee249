// The learning rate of each optimizer step: linear warm-up, then the polynomial or multi-step decay
// of arcface_torch.
#pragma once

#include <cstdint>

#include "common/config/config.h"

namespace pfc {

/// Immutable.
class LrScheduler {
 public:
  /// base: the rate when the warm-up ends. total_steps: where a polynomial decay reaches 0.
  /// steps_per_epoch: for multi-step decay, which counts epochs.
  LrScheduler(const LrSchedule& schedule, double base, std::int64_t warmup_steps,
              std::int64_t total_steps, double steps_per_epoch);
  /// The learning rate of a step. REQUIRES: step >= 1.
  [[nodiscard]] double at(std::int64_t step) const;

 private:
  LrSchedule schedule_;
  double base_;
  std::int64_t warmup_steps_;
  std::int64_t total_steps_;
  double steps_per_epoch_;
};

}  // namespace pfc
