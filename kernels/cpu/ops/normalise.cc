#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc {

void CpuOps::run_normalise_rows(const Tensor& x, const Tensor& y, const Tensor& inverse_norm) {
  const std::int64_t rows = inverse_norm.elements();
  const std::int64_t n = x.elements() / rows;
  const float* const from = x.f32();
  float* const to = y.f32();
  float* const inverse = inverse_norm.f32();
  device_.threads.each_range(rows, 1, x.elements(), [&](const Range& r) {
    device_.vector.normalise_rows(from + r.begin * n, to + r.begin * n, inverse + r.begin, r.size(),
                                  n);
  });
}

void CpuOps::run_normalise_rows_backward(const Tensor& dy, const Tensor& y,
                                         const Tensor& inverse_norm, const Tensor& dx) {
  const std::int64_t rows = inverse_norm.elements();
  const std::int64_t n = y.elements() / rows;
  const float* const unit = y.f32();
  const float* const from = dy.f32();
  float* const to = dx.f32();
  const float* const inverse = inverse_norm.f32();
  device_.threads.each_range(rows, 1, y.elements(), [&](const Range& r) {
    const std::int64_t offset = r.begin * n;
    device_.vector.normalise_rows_backward(from + offset, unit + offset, inverse + r.begin,
                                           to + offset, r.size(), n);
  });
}

}  // namespace pfc
