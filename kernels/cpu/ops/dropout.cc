#include "kernels/math/dropout.h"

#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc {

void CpuOps::run_dropout(const Tensor& x, const Tensor& y, const DropoutOptions& o) {
  const float* const from = x.f32();
  float* const to = y.f32();
  device_.threads.each_range(x.elements(), 16, x.elements(), [&](const Range& r) {
    for (std::int64_t i = r.begin; i < r.end; ++i) {
      to[i] = from[i] * dropout_factor(o.probability, o.seed, o.step,
                                       o.first_element + static_cast<std::uint64_t>(i));
    }
  });
}

}  // namespace pfc
