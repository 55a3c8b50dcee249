// Normalises rows of a few hundred numbers: one warp per row.

#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/cuda/primitives/warps.h"

namespace pfc {
namespace {

// Squares are float64: for lengths of 1e+20 or 1e-20 they exceed float32's range.
__global__ void normalise_rows_kernel(std::int64_t rows, std::int64_t d, const float* x, float* y,
                                      float* inverse_norm) {
  const std::int64_t row = index_of_warp();
  if (row >= rows) return;
  const unsigned lane = threadIdx.x % kWarp;
  double squares = 0;
  for (std::int64_t i = lane; i < d; i += kWarp) {
    const auto value = static_cast<double>(x[row * d + i]);
    squares += value * value;
  }
  squares = warp_sum(squares);
  const double inverse = squares == 0 ? 0.0 : 1 / sqrt(squares);
  for (std::int64_t i = lane; i < d; i += kWarp) {
    y[row * d + i] = static_cast<float>(static_cast<double>(x[row * d + i]) * inverse);
  }
  if (lane == 0) inverse_norm[row] = static_cast<float>(inverse);
}

__global__ void normalise_rows_backward_kernel(std::int64_t rows, std::int64_t d, const float* dy,
                                               const float* y, const float* inverse_norm,
                                               float* dx) {
  const std::int64_t row = index_of_warp();
  if (row >= rows) return;
  const unsigned lane = threadIdx.x % kWarp;
  double along = 0;
  for (std::int64_t i = lane; i < d; i += kWarp) {
    along += static_cast<double>(dy[row * d + i]) * static_cast<double>(y[row * d + i]);
  }
  along = warp_sum(along);
  const auto inverse = static_cast<double>(inverse_norm[row]);
  for (std::int64_t i = lane; i < d; i += kWarp) {
    const double across =
        static_cast<double>(dy[row * d + i]) - static_cast<double>(y[row * d + i]) * along;
    dx[row * d + i] = static_cast<float>(across * inverse);
  }
}

}  // namespace

void CudaOps::run_normalise_rows(const Tensor& x, const Tensor& y, const Tensor& inverse_norm) {
  const std::int64_t rows = inverse_norm.elements();
  launch("normalise_rows", one_warp_each(rows), device_.compute.get(), normalise_rows_kernel, rows,
         x.elements() / rows, x.f32(), y.f32(), inverse_norm.f32());
}

void CudaOps::run_normalise_rows_backward(const Tensor& dy, const Tensor& y,
                                          const Tensor& inverse_norm, const Tensor& dx) {
  const std::int64_t rows = inverse_norm.elements();
  launch("normalise_rows_backward", one_warp_each(rows), device_.compute.get(),
         normalise_rows_backward_kernel, rows, dy.elements() / rows, dy.f32(), y.f32(),
         inverse_norm.f32(), dx.f32());
}

}  // namespace pfc
