#include "worker/gradients/weight_average.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pfc {
namespace {

constexpr std::size_t kScratchBytes = std::size_t{4} << 20;

Tensor slice_of(const Tensor& flat, std::int64_t begin, std::int64_t count) {
  return {flat.f32() + begin, Shape{count}};
}

}  // namespace

WeightAverage::Bytes WeightAverage::bytes(std::size_t weight_bytes, std::size_t state_bytes) {
  return {.weights = weight_bytes,
          .state = state_bytes,
          .scratch = std::min(kScratchBytes, std::max(weight_bytes, state_bytes))};
}

WeightAverage::WeightAverage(Ops& ops, Backbone& backbone, double decay)
    : ops_(ops),
      backbone_(backbone),
      decay_(decay),
      weights_(ops, {backbone.weights.count}),
      state_(ops, {backbone.state.count}),
      scratch_(ops, {static_cast<std::int64_t>(
                        bytes(backbone.weights.bytes(), backbone.state.bytes()).scratch /
                        sizeof(float))}) {
  restart();
}

void WeightAverage::restart() {
  ops_.copy(backbone_.weights.flat(), weights_);
  ops_.copy(backbone_.state.flat(), state_);
}

void WeightAverage::add(std::int64_t number) {
  const auto part =
      static_cast<float>(std::max(1 - decay_, std::pow(static_cast<double>(number), -2.0 / 3)));
  ops_.average(backbone_.weights.flat(), part, weights_);
  ops_.average(backbone_.state.flat(), part, state_);
}

void WeightAverage::during(const std::function<void()>& f) {
  exchange();
  try {
    f();
  } catch (...) {
    exchange();
    throw;
  }
  exchange();
}

void WeightAverage::exchange() {
  backbone_.operands_are_current = false;
  for (const auto& [own, average] : {std::pair{backbone_.weights.flat(), weights()},
                                     std::pair{backbone_.state.flat(), state()}}) {
    const std::int64_t all = own.elements(), most = scratch_->elements();
    for (std::int64_t begin = 0; begin < all; begin += most) {
      const std::int64_t count = std::min(most, all - begin);
      const Tensor a = slice_of(own, begin, count), b = slice_of(average, begin, count);
      const Tensor kept = slice_of(scratch_, 0, count);
      ops_.copy(a, kept);
      ops_.copy(b, a);
      ops_.copy(kept, b);
    }
  }
}

}  // namespace pfc
