// Max pooling, averages over the pixels of a sample, and gates.

#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/cuda/primitives/numbers.h"
#include "kernels/cuda/primitives/warps.h"
#include "kernels/math/pooling.h"

namespace pfc {
namespace {

struct PoolWindows {
  PoolWindow rows, columns;
  std::int64_t batch, channels;
};

PoolWindows windows_of(const Conv2dShape& s) {
  return {.rows = {s.in_h, s.out_h(), s.kernel, s.stride, s.pad},
          .columns = {s.in_w, s.out_w(), s.kernel, s.stride, s.pad},
          .batch = s.batch,
          .channels = s.in_c};
}

/// Indices of an element of [batch, rows, columns, channels].
struct PoolPlace {
  std::int64_t image, row, column, channel;
};

__device__ __forceinline__ PoolPlace place_of(std::int64_t i, std::int64_t rows,
                                              std::int64_t columns, std::int64_t channels) {
  const std::int64_t pixel = i / channels;
  return {.image = pixel / columns / rows,
          .row = pixel / columns % rows,
          .column = pixel % columns,
          .channel = i % channels};
}

__device__ __forceinline__ std::int64_t first_element() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ std::int64_t all_threads() {
  return std::int64_t{gridDim.x} * blockDim.x;
}

template <typename T>
__global__ void max_pool_kernel(PoolWindows w, const T* x, T* y, std::uint8_t* winners) {
  const std::int64_t count = w.batch * w.rows.out * w.columns.out * w.channels;
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const PoolPlace at = place_of(i, w.rows.out, w.columns.out, w.channels);
    const PoolRange rows = pixels_of_window(w.rows, at.row);
    const PoolRange columns = pixels_of_window(w.columns, at.column);
    float largest = 0.f;
    std::int64_t winner = -1;
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      const std::int64_t row = at.image * w.rows.in + at.row * w.rows.stride - w.rows.pad + r;
      for (std::int64_t c = columns.begin; c < columns.end; ++c) {
        const std::int64_t column = at.column * w.columns.stride - w.columns.pad + c;
        const float value = to_float(x[(row * w.columns.in + column) * w.channels + at.channel]);
        if (winner >= 0 && !(value > largest) && value == value) continue;  // keeps NaN
        largest = value;
        winner = r * w.columns.kernel + c;
      }
    }
    y[i] = from_float<T>(largest);
    if (winners != nullptr) winners[i] = static_cast<std::uint8_t>(winner);
  }
}

template <typename T>
__global__ void max_pool_backward_kernel(PoolWindows w, const T* dy, const std::uint8_t* winners,
                                         T* dx) {
  const std::int64_t count = w.batch * w.rows.in * w.columns.in * w.channels;
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const PoolPlace at = place_of(i, w.rows.in, w.columns.in, w.channels);
    const PoolRange rows = windows_of_pixel(w.rows, at.row);
    const PoolRange columns = windows_of_pixel(w.columns, at.column);
    float sum = 0.f;
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      for (std::int64_t c = columns.begin; c < columns.end; ++c) {
        const std::int64_t place = (at.row + w.rows.pad - r * w.rows.stride) * w.columns.kernel +
                                   at.column + w.columns.pad - c * w.columns.stride;
        const std::int64_t from =
            ((at.image * w.rows.out + r) * w.columns.out + c) * w.channels + at.channel;
        if (winners[from] == place) sum += to_float(dy[from]);
      }
    }
    dx[i] = from_float<T>(sum);
  }
}

/// A block processes kWarp adjacent channels of a sample: its warps divide the pixels.
LaunchShape of_samples(const Tensor& x) {
  const std::int64_t n = x.shape[3];
  return {.blocks = dim3(static_cast<unsigned>(x.shape[0]),
                         static_cast<unsigned>((n + kWarp - 1) / kWarp)),
          .threads = dim3(kThreads)};
}

template <typename T, typename Y>
__global__ void average_pool_kernel(std::int64_t pixels, std::int64_t n, const T* x, Y* y) {
  __shared__ float sums[kWarps][kWarp];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::int64_t channel = std::int64_t{blockIdx.y} * kWarp + lane, sample = blockIdx.x;
  float sum = 0.f;
  for (std::int64_t p = warp; p < pixels && channel < n; p += kWarps) {
    sum += to_float(x[(sample * pixels + p) * n + channel]);
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || channel >= n) return;
  for (unsigned i = 1; i < kWarps; ++i) sum += sums[i][lane];
  y[sample * n + channel] = from_float<Y>(sum / static_cast<float>(pixels));
}

template <typename Y, typename T>
__global__ void average_pool_backward_kernel(std::int64_t count, std::int64_t pixels,
                                             std::int64_t n, const Y* dy, T* dx, bool accumulate) {
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const float share = to_float(dy[i / (pixels * n) * n + i % n]) / static_cast<float>(pixels);
    dx[i] = from_float<T>(accumulate ? to_float(dx[i]) + share : share);
  }
}

template <typename T>
__global__ void gate_kernel(std::int64_t pixels, std::int64_t n, const T* x, const T* logits,
                            const T* residual, T* y) {
  const std::int64_t channel = std::int64_t{blockIdx.y} * kWarp + threadIdx.x % kWarp;
  if (channel >= n) return;
  const std::int64_t sample = blockIdx.x;
  const float gate = sigmoid(to_float(logits[sample * n + channel]));
  for (std::int64_t p = threadIdx.x / kWarp; p < pixels; p += kWarps) {
    const std::int64_t i = (sample * pixels + p) * n + channel;
    y[i] = from_float<T>(to_float(x[i]) * gate + to_float(residual[i]));
  }
}

/// dx: nullptr: not needed.
template <typename T>
__global__ void gate_backward_kernel(std::int64_t pixels, std::int64_t n, const T* dy, const T* x,
                                     const T* logits, T* dx, T* dlogits) {
  __shared__ float sums[kWarps][kWarp];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::int64_t channel = std::int64_t{blockIdx.y} * kWarp + lane, sample = blockIdx.x;
  const float gate = channel < n ? sigmoid(to_float(logits[sample * n + channel])) : 0.f;
  float sum = 0.f;
  for (std::int64_t p = warp; p < pixels && channel < n; p += kWarps) {
    const std::int64_t i = (sample * pixels + p) * n + channel;
    const float d = to_float(dy[i]);
    sum += d * to_float(x[i]);
    if (dx != nullptr) dx[i] = from_float<T>(d * gate);
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || channel >= n) return;
  for (unsigned i = 1; i < kWarps; ++i) sum += sums[i][lane];
  dlogits[sample * n + channel] = from_float<T>(sum * gate * (1.f - gate));
}

}  // namespace

void CudaOps::run_max_pool(const Conv2dShape& shape, const Tensor& x, const Tensor& y,
                           const Tensor& winners) {
  with_element_type(x.dtype, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    launch("max_pool", device_.grid_for(y.elements()), device_.compute.get(),
           max_pool_kernel<Element>, windows_of(shape), static_cast<const Element*>(x.data),
           static_cast<Element*>(y.data), static_cast<std::uint8_t*>(winners.data));
  });
}

void CudaOps::run_max_pool_backward(const Conv2dShape& shape, const Tensor& dy,
                                    const Tensor& winners, const Tensor& dx) {
  with_element_type(dy.dtype, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    launch("max_pool_backward", device_.grid_for(dx.elements()), device_.compute.get(),
           max_pool_backward_kernel<Element>, windows_of(shape),
           static_cast<const Element*>(dy.data), static_cast<const std::uint8_t*>(winners.data),
           static_cast<Element*>(dx.data));
  });
}

void CudaOps::run_average_pool(const Tensor& x, const Tensor& y) {
  with_element_type(x.dtype, [&](auto* x_type) {
    with_element_type(y.dtype, [&](auto* y_type) {
      using X = std::remove_pointer_t<decltype(x_type)>;
      using Y = std::remove_pointer_t<decltype(y_type)>;
      launch("average_pool", of_samples(x), device_.compute.get(), average_pool_kernel<X, Y>,
             x.shape[1] * x.shape[2], x.shape[3], static_cast<const X*>(x.data),
             static_cast<Y*>(y.data));
    });
  });
}

void CudaOps::run_average_pool_backward(const Tensor& dy, const Tensor& dx, bool accumulate) {
  with_element_type(dy.dtype, [&](auto* y_type) {
    with_element_type(dx.dtype, [&](auto* x_type) {
      using Y = std::remove_pointer_t<decltype(y_type)>;
      using X = std::remove_pointer_t<decltype(x_type)>;
      launch("average_pool_backward", device_.grid_for(dx.elements()), device_.compute.get(),
             average_pool_backward_kernel<Y, X>, dx.elements(), dx.shape[1] * dx.shape[2],
             dx.shape[3], static_cast<const Y*>(dy.data), static_cast<X*>(dx.data), accumulate);
    });
  });
}

void CudaOps::run_gate(const Tensor& x, const Tensor& logits, const Tensor& residual,
                       const Tensor& y) {
  with_element_type(x.dtype, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    launch("gate", of_samples(x), device_.compute.get(), gate_kernel<Element>,
           x.shape[1] * x.shape[2], x.shape[3], static_cast<const Element*>(x.data),
           static_cast<const Element*>(logits.data), static_cast<const Element*>(residual.data),
           static_cast<Element*>(y.data));
  });
}

void CudaOps::run_gate_backward(const Tensor& dy, const Tensor& x, const Tensor& logits,
                                const Tensor& dx, const Tensor& dlogits) {
  with_element_type(x.dtype, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    launch("gate_backward", of_samples(x), device_.compute.get(), gate_backward_kernel<Element>,
           x.shape[1] * x.shape[2], x.shape[3], static_cast<const Element*>(dy.data),
           static_cast<const Element*>(x.data), static_cast<const Element*>(logits.data),
           static_cast<Element*>(dx.data), static_cast<Element*>(dlogits.data));
  });
}

}  // namespace pfc
