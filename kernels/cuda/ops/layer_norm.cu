// Layer norm: one warp per row. The gradients of gamma and beta are sums over rows.

#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/cuda/primitives/column_sums.h"
#include "kernels/cuda/primitives/numbers.h"

namespace pfc {
namespace {

template <typename T>
__global__ void layer_norm_kernel(std::int64_t rows, std::int64_t n, float eps, const float* x,
                                  const float* gamma, const float* beta, T* y, float* statistics) {
  const std::int64_t row = index_of_warp();
  if (row >= rows) return;
  const unsigned lane = threadIdx.x % kWarp;
  float sum = 0;
  for (std::int64_t i = lane; i < n; i += kWarp) sum += x[row * n + i];
  const float mean = warp_sum(sum) / static_cast<float>(n);
  float squares = 0;
  for (std::int64_t i = lane; i < n; i += kWarp) {
    const float centred = x[row * n + i] - mean;
    squares += centred * centred;
  }
  const float inverse = 1.f / sqrtf(warp_sum(squares) / static_cast<float>(n) + eps);
  for (std::int64_t i = lane; i < n; i += kWarp) {
    y[row * n + i] = from_float<T>((x[row * n + i] - mean) * inverse * gamma[i] + beta[i]);
  }
  if (lane != 0) return;
  statistics[2 * row] = mean;
  statistics[2 * row + 1] = inverse;
}

template <typename T>
__global__ void layer_norm_backward_kernel(std::int64_t rows, std::int64_t n, const T* dy,
                                           const float* x, const float* statistics,
                                           const float* gamma, const float* add, float* dx) {
  const std::int64_t row = index_of_warp();
  if (row >= rows) return;
  const unsigned lane = threadIdx.x % kWarp;
  const float mean = statistics[2 * row], inverse = statistics[2 * row + 1];
  float sum = 0, along = 0;
  for (std::int64_t i = lane; i < n; i += kWarp) {
    const float g = to_float(dy[row * n + i]) * gamma[i];
    sum += g;
    along += g * ((x[row * n + i] - mean) * inverse);
  }
  const float mean_g = warp_sum(sum) / static_cast<float>(n);
  const float mean_along = warp_sum(along) / static_cast<float>(n);
  for (std::int64_t i = lane; i < n; i += kWarp) {
    const float g = to_float(dy[row * n + i]) * gamma[i];
    const float unit = (x[row * n + i] - mean) * inverse;
    const float value = (g - mean_g - unit * mean_along) * inverse;
    dx[row * n + i] = add == nullptr ? value : value + add[row * n + i];
  }
}

/// What one element adds to the gradients of gamma and beta.
template <typename T>
struct LayerNormShares {
  std::int64_t n;
  const T* dy;
  const float *x, *statistics;
  __device__ void operator()(std::int64_t row, std::int64_t column, float (&out)[2]) const {
    const std::int64_t i = row * n + column;
    out[1] = to_float(dy[i]);
    out[0] = out[1] * ((x[i] - statistics[2 * row]) * statistics[2 * row + 1]);
  }
};

}  // namespace

void CudaOps::run_layer_norm(const LayerNorm& l) {
  const std::int64_t n = l.gamma.elements(), rows = l.x.elements() / n;
  with_element_type(l.y.dtype, [&](auto* type) {
    using Pointer = decltype(type);
    launch("layer_norm", one_warp_each(rows), device_.compute.get(),
           layer_norm_kernel<std::remove_pointer_t<Pointer>>, rows, n, l.eps, l.x.f32(),
           l.gamma.f32(), l.beta.f32(), static_cast<Pointer>(l.y.data), l.statistics.f32());
  });
}

void CudaOps::run_layer_norm_backward(const LayerNormBackward& b) {
  const std::int64_t n = b.gamma.elements(), rows = b.x.elements() / n;
  with_element_type(b.dy.dtype, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    const auto* const dy = static_cast<const Element*>(b.dy.data);
    if (b.dgamma || b.dbeta) {
      const LayerNormShares<Element> shares{
          .n = n, .dy = dy, .x = b.x.f32(), .statistics = b.statistics.f32()};
      sum_columns<2>("layer_norm_backward", device_, rows, n, shares, b.accumulate,
                     {.sums = {b.dgamma.f32(), b.dbeta.f32()}});
    }
    if (!b.dx) return;
    launch("layer_norm_backward", one_warp_each(rows), device_.compute.get(),
           layer_norm_backward_kernel<Element>, rows, n, dy, b.x.f32(), b.statistics.f32(),
           b.gamma.f32(), b.add.f32(), b.dx.f32());
  });
}

}  // namespace pfc
