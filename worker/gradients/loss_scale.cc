#include "worker/gradients/loss_scale.h"

#include <algorithm>

namespace pfc {

void LossScale::update(bool finite) {
  if (finite) ++updates_;
  if (!is_dynamic()) return;
  if (!finite) {
    value_ = std::max(1.0, value_ / 2);
    finite_updates_ = 0;
  } else if (++finite_updates_ == kGrowthInterval) {
    value_ = std::min(kLargest, value_ * 2);
    finite_updates_ = 0;
  }
}

void LossScale::restore(const State& state) {
  updates_ = state.updates;
  if (!is_dynamic() || state.value <= 0) return;
  value_ = state.value;
  finite_updates_ = state.finite_updates;
}

}  // namespace pfc
