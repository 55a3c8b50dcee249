#include "kernels/math/masks/dropout.h"

#include <algorithm>

#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc {
namespace {

void scale_number(float from, float factor, float& to) { to = from * factor; }
void scale_number(BFloat16 from, float factor, BFloat16& to) {
  to = nearest_bfloat16(float_of(from) * factor);
}

}  // namespace

void CpuOps::run_dropout(const Tensor& x, const Tensor& y, const DropoutOptions& o) {
  with_numbers_of(x, [&]<typename T>() {
    const T* const from = numbers<T>(x);
    T* const to = numbers<T>(y);
    device_.threads.each_range(x.elements(), 32, x.elements(), [&](const Range& r) {
      for (std::int64_t i = r.begin; i < r.end;) {
        const std::int64_t group = i / o.group, end = std::min((group + 1) * o.group, r.end);
        const float factor = dropout_factor(o.probability, o.seed, o.step,
                                            o.first_element + static_cast<std::uint64_t>(group));
        for (; i < end; ++i) scale_number(from[i], factor, to[i]);
      }
    });
  });
}

}  // namespace pfc
