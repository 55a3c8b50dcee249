#include "kernels/math/dropout.h"

#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc {

void CpuOps::dropout(const Tensor& x, const Tensor& y, const DropoutOptions& o) {
  check(o.probability >= 0.f && o.probability < 1.f, "dropout: probability outside [0, 1)");
  const float* const from = x.f32();
  float* const to = float_argument(y, x.elements(), "dropout: shape of y");
  device_.threads.each_range(x.elements(), 16, x.elements(), [&](const Range& r) {
    for (std::int64_t i = r.begin; i < r.end; ++i) {
      to[i] = from[i] * dropout_factor(o.probability, o.seed, o.step,
                                       o.first_element + static_cast<std::uint64_t>(i));
    }
  });
}

}  // namespace pfc
