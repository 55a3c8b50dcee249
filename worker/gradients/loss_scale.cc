#include "worker/gradients/loss_scale.h"

#include <algorithm>

namespace pfc {

void LossScale::update(bool finite) {
  if (!is_dynamic()) return;
  if (!finite) {
    value_ = std::max(1.0, value_ / 2);
    finite_updates_ = 0;
    ++left_out_;
  } else if (++finite_updates_ == kGrowthInterval) {
    value_ = std::min(kLargest, value_ * 2);
    finite_updates_ = 0;
  }
}

void LossScale::count_in_steps_of_this_job(std::int64_t before, std::int64_t now) {
  if (before == now || before <= 0) return;
  const double part = static_cast<double>(left_out_) / static_cast<double>(before);
  left_out_ = std::min(now, static_cast<std::int64_t>(part * static_cast<double>(now)));
}

void LossScale::restore(const State& state) {
  left_out_ = state.left_out;
  if (!is_dynamic() || state.value <= 0) return;
  value_ = state.value;
  finite_updates_ = state.finite_updates;
}

}  // namespace pfc
