#include <algorithm>

#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc {

void CpuOps::run_layer_norm(const LayerNorm& l) {
  const std::int64_t n = l.gamma.elements();
  with_numbers_of(l.y, [&]<typename T>() {
    device_.threads.each_range(l.x.elements() / n, 1, l.x.elements(), [&](const Range& r) {
      device_.vector.template of<T>().layer_norm({.rows = r.size(),
                                                  .n = n,
                                                  .x = l.x.f32() + r.begin * n,
                                                  .gamma = l.gamma.f32(),
                                                  .beta = l.beta.f32(),
                                                  .eps = l.eps,
                                                  .y = numbers<T>(l.y) + r.begin * n,
                                                  .statistics = l.statistics.f32() + 2 * r.begin});
    });
  });
}

void CpuOps::run_layer_norm_backward(const LayerNormBackward& b) {
  const std::int64_t n = b.gamma.elements(), rows = b.x.elements() / n;
  with_numbers_of(b.dy, [&]<typename T>() {
    const T* const dy = numbers<T>(b.dy);
    const auto& kernels = device_.vector.template of<T>();
    if (b.dgamma || b.dbeta) {
      // Threads divide the columns, so one thread computes each sum, in float64.
      constexpr std::int64_t kStrip = 64;
      device_.threads.each_range(n, kStrip, 2 * b.x.elements(), [&](const Range& columns) {
        for (std::int64_t begin = columns.begin; begin < columns.end; begin += kStrip) {
          const std::int64_t width = std::min(kStrip, columns.end - begin);
          double dgamma[kStrip] = {}, dbeta[kStrip] = {};
          kernels.layer_norm_sums({.rows = rows,
                                   .n = n,
                                   .width = width,
                                   .dy = dy + begin,
                                   .x = b.x.f32() + begin,
                                   .statistics = b.statistics.f32(),
                                   .dgamma = dgamma,
                                   .dbeta = dbeta});
          for (const auto& [to, sums] : {std::pair{&b.dgamma, dgamma}, {&b.dbeta, dbeta}}) {
            float* const out = to->f32();
            for (std::int64_t i = 0; i < width && out != nullptr; ++i) {
              out[begin + i] = static_cast<float>((b.accumulate ? out[begin + i] : 0.0) + sums[i]);
            }
          }
        }
      });
    }
    if (!b.dx) return;
    device_.threads.each_range(rows, 1, b.x.elements(), [&](const Range& r) {
      const std::int64_t first = r.begin * n;
      kernels.layer_norm_backward({.rows = r.size(),
                                   .n = n,
                                   .dy = dy + first,
                                   .x = b.x.f32() + first,
                                   .statistics = b.statistics.f32() + 2 * r.begin,
                                   .gamma = b.gamma.f32(),
                                   .add = b.add ? b.add.f32() + first : nullptr,
                                   .dx = b.dx.f32() + first});
    });
  });
}

}  // namespace pfc
