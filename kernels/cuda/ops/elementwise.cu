// Ops that make one pass over memory.

#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/cuda/primitives/map.h"
#include "kernels/cuda/primitives/warps.h"
#include "kernels/math/running_statistics.h"

namespace pfc {
namespace {

struct Constant {
  float value;
  __device__ float operator()() const { return value; }
};
struct Times {
  float factor;
  __device__ float operator()(float x) const { return factor * x; }
};
struct Average {
  float part;
  __device__ float operator()(float value, float average) const {
    return average + part * (value - average);
  }
};
struct Pixel {
  __device__ float operator()(float x) const { return x / 127.5f - 1.f; }
};

__global__ void add_bias_kernel(std::int64_t elements, std::int64_t n, float* y,
                                const float* bias) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    y[i] += bias[i % n];
  }
}

// The lanes of a warp read 32 adjacent columns; the 8 warps of a block divide the rows.
constexpr unsigned kRowsAtOnce = 8;

__global__ void column_sums_kernel(std::int64_t rows, std::int64_t n, const float* x, float* sums,
                                   bool accumulate) {
  __shared__ double parts[kRowsAtOnce][kWarp];
  const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  double sum = 0;
  if (column < n) {
    for (std::int64_t row = threadIdx.y; row < rows; row += kRowsAtOnce) {
      sum += static_cast<double>(x[row * n + column]);
    }
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= n) return;
  double total = accumulate ? static_cast<double>(sums[column]) : 0.0;
  for (unsigned i = 0; i < kRowsAtOnce; ++i) total += parts[i][threadIdx.x];
  sums[column] = static_cast<float>(total);
}

__global__ void running_statistics_kernel(std::int64_t n, RunningStatisticsRule rule,
                                          const float* mean, const float* variance,
                                          float* running_mean, float* running_variance) {
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c < n) update_running(rule, mean[c], variance[c], running_mean[c], running_variance[c]);
}

}  // namespace

void CudaOps::run_fill(const Tensor& t, float value) {
  map("fill", device_, t.elements(), Constant{value}, t.f32());
}

void CudaOps::run_convert(const Tensor& from, const Tensor& to) {
  with_element_type(from.dtype, [&](auto* from_type) {
    with_element_type(to.dtype, [&](auto* to_type) {
      map("convert", device_, from.elements(), Same{}, static_cast<decltype(to_type)>(to.data),
          static_cast<const std::remove_pointer_t<decltype(from_type)>*>(from.data));
    });
  });
}

void CudaOps::run_normalise_images(const Tensor& images, const Tensor& y) {
  with_element_type(y.dtype, [&](auto* type) {
    map("normalise_images", device_, y.elements(), Pixel{}, static_cast<decltype(type)>(y.data),
        static_cast<const std::uint8_t*>(images.data));
  });
}

void CudaOps::run_add(const Tensor& a, const Tensor& b, const Tensor& y) {
  with_element_type(y.dtype, [&](auto* type) {
    using Pointer = decltype(type);
    using Element = std::remove_pointer_t<Pointer>;
    map("add", device_, y.elements(), Sum{}, static_cast<Pointer>(y.data),
        static_cast<const Element*>(a.data), static_cast<const Element*>(b.data));
  });
}

void CudaOps::run_scale(const Tensor& x, float factor, const Tensor& y) {
  map("scale", device_, y.elements(), Times{factor}, y.f32(), static_cast<const float*>(x.f32()));
}

void CudaOps::run_average(const Tensor& value, float part, const Tensor& average) {
  map("average", device_, average.elements(), Average{part}, average.f32(),
      static_cast<const float*>(value.f32()), static_cast<const float*>(average.f32()));
}

void CudaOps::run_add_bias(const Tensor& y, const Tensor& bias) {
  const std::int64_t n = bias.elements();
  launch("add_bias", device_.grid_for(y.elements()), device_.compute.get(), add_bias_kernel,
         y.elements(), n, y.f32(), bias.f32());
}

void CudaOps::run_column_sums(const Tensor& x, const Tensor& sums, bool accumulate) {
  const std::int64_t n = sums.elements();
  const auto blocks = static_cast<unsigned>((n + kWarp - 1) / kWarp);
  launch("column_sums", {.blocks = dim3(blocks), .threads = dim3(kWarp, kRowsAtOnce)},
         device_.compute.get(), column_sums_kernel, x.elements() / n, n, x.f32(), sums.f32(),
         accumulate);
}

void CudaOps::run_update_running_statistics(const RunningStatistics& r) {
  const std::int64_t n = r.mean.elements();
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  launch("update_running_statistics", {.blocks = dim3(blocks), .threads = dim3(kThreads)},
         device_.compute.get(), running_statistics_kernel, n,
         running_statistics_rule(r.momentum, r.total_rows), r.mean.f32(), r.variance.f32(),
         r.running_mean.f32(), r.running_variance.f32());
}

}  // namespace pfc
