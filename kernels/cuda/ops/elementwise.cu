// Ops that make one pass over memory.

#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/cuda/primitives/column_sums.h"
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

struct Relu {
  __device__ float operator()(float y) const { return y < 0.f ? 0.f : y; }  // NaN stays NaN
};
struct ReluGradient {
  float bound;
  __device__ float operator()(float y, float dy) const { return y > 0.f && y < bound ? dy : 0.f; }
};

template <typename T>
__global__ void add_bias_kernel(std::int64_t elements, std::int64_t n, T* y, const float* bias,
                                bool relu6) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    const float sum = to_float(y[i]) + bias[i % n];
    y[i] = from_float<T>(!relu6 ? sum : sum < 0.f ? 0.f : sum > 6.f ? 6.f : sum);  // NaN stays NaN
  }
}

/// The element itself, or 0 in the rows of tokens that were kept.
template <typename T>
struct ElementOf {
  std::int64_t n;
  const T* x;
  const std::int64_t* places;  // nullptr: all rows
  __device__ void operator()(std::int64_t row, std::int64_t column, float (&out)[1]) const {
    out[0] = places == nullptr || places[row] < 0 ? to_float(x[row * n + column]) : 0.f;
  }
};

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

void CudaOps::run_add_bias(const Tensor& y, const Tensor& bias, bool relu6) {
  const std::int64_t n = bias.elements();
  with_element_type(y.dtype, [&](auto* type) {
    using Pointer = decltype(type);
    launch("add_bias", device_.grid_for(y.elements()), device_.compute.get(),
           add_bias_kernel<std::remove_pointer_t<Pointer>>, y.elements(), n,
           static_cast<Pointer>(y.data), bias.f32(), relu6);
  });
}

void CudaOps::run_relu(const Tensor& y) {
  with_element_type(y.dtype, [&](auto* type) {
    using Pointer = decltype(type);
    using Element = std::remove_pointer_t<Pointer>;
    map("relu", device_, y.elements(), Relu{}, static_cast<Pointer>(y.data),
        static_cast<const Element*>(y.data));
  });
}

void CudaOps::run_relu_backward(const Tensor& y, const Tensor& dy, float bound) {
  with_element_type(y.dtype, [&](auto* type) {
    using Pointer = decltype(type);
    using Element = std::remove_pointer_t<Pointer>;
    map("relu_backward", device_, y.elements(), ReluGradient{bound}, static_cast<Pointer>(dy.data),
        static_cast<const Element*>(y.data), static_cast<const Element*>(dy.data));
  });
}

void CudaOps::run_column_sums(const Tensor& x, const Tensor& sums, bool accumulate,
                              const Tensor& places) {
  const std::int64_t n = sums.elements();
  with_element_type(x.dtype, [&](auto* type) {
    using Element = std::remove_pointer_t<decltype(type)>;
    const ElementOf<Element> element{.n = n,
                                     .x = static_cast<const Element*>(x.data),
                                     .places = static_cast<const std::int64_t*>(places.data)};
    sum_columns<1>("column_sums", device_, x.elements() / n, n, element, accumulate,
                   {.sums = {sums.f32()}});
  });
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
