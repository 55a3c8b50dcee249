#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc {

void CpuOps::normalise_rows(const Tensor& x, const Tensor& y, const Tensor& inverse_norm) {
  const std::int64_t rows = inverse_norm.elements();
  check(rows == 0 || x.elements() % rows == 0, "normalise_rows: x is not [rows, d]");
  if (rows == 0) return;
  const std::int64_t n = x.elements() / rows;
  const float* const from = x.f32();
  float* const to = float_argument(y, x.elements(), "normalise_rows: shape of y");
  float* const inverse = inverse_norm.f32();
  device_.threads.each_range(rows, 1, x.elements(), [&](const Range& r) {
    device_.vector.normalise_rows(from + r.begin * n, to + r.begin * n, inverse + r.begin, r.size(),
                                  n);
  });
}

void CpuOps::normalise_rows_backward(const Tensor& dy, const Tensor& y, const Tensor& inverse_norm,
                                     const Tensor& dx) {
  const std::int64_t rows = inverse_norm.elements();
  check(rows == 0 || y.elements() % rows == 0, "normalise_rows_backward: y is not [rows, d]");
  if (rows == 0) return;
  const std::int64_t n = y.elements() / rows;
  const float* const unit = y.f32();
  const float* const from =
      float_argument(dy, y.elements(), "normalise_rows_backward: shape of dy");
  float* const to = float_argument(dx, y.elements(), "normalise_rows_backward: shape of dx");
  const float* const inverse = inverse_norm.f32();
  device_.threads.each_range(rows, 1, y.elements(), [&](const Range& r) {
    const std::int64_t offset = r.begin * n;
    device_.vector.normalise_rows_backward(from + offset, unit + offset, inverse + r.begin,
                                           to + offset, r.size(), n);
  });
}

}  // namespace pfc
