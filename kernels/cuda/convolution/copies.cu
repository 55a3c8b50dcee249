// Copies tensors for cuDNN, and creates the numbers for timing its algorithms.

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/convolution/own_kernels.h"
#include "kernels/cuda/primitives/map.h"
#include "kernels/math/philox.h"

namespace pfc {
namespace {

struct Matrix {
  std::int64_t rows, channels;
};

Matrix matrix_of(const Tensor& t) {
  const std::int64_t channels = t.shape[t.shape.rank() - 1];
  return {t.elements() / channels, channels};
}

template <typename From, typename To>
__global__ void copy_channels_kernel(Matrix from_size, Matrix to_size, bool accumulate,
                                     const From* from, To* to) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t n = to_size.rows * to_size.channels;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    const std::int64_t row = i / to_size.channels, channel = i % to_size.channels;
    float sum = accumulate ? to_float(to[i]) : 0.f;
    if (row < from_size.rows && channel < from_size.channels) {
      sum += to_float(from[row * from_size.channels + channel]);
    }
    to[i] = from_float<To>(sum);
  }
}

template <typename T>
__global__ void random_kernel(std::int64_t n, T* to) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    const Philox4 words = random_words(0, Stream::kTiming, 0, static_cast<std::uint64_t>(i));
    to[i] = from_float<T>(2.f * uniform01(words.x[0]) - 1.f);
  }
}

}  // namespace

void copy_channels(CudaDevice& device, const Tensor& from, const Tensor& to, bool accumulate) {
  const Matrix from_size = matrix_of(from), to_size = matrix_of(to);
  const auto copy = [&](const auto* source, auto* target) {
    if (from.shape == to.shape && !accumulate) {
      return map("copy_channels", device, to.elements(), Same{}, target, source);
    }
    launch("copy_channels", device.grid_for(to.elements()), device.compute.get(),
           copy_channels_kernel<std::remove_cv_t<std::remove_pointer_t<decltype(source)>>,
                                std::remove_pointer_t<decltype(target)>>,
           from_size, to_size, accumulate, source, target);
  };
  with_element_type(from.dtype, [&](auto* from_type) {
    with_element_type(to.dtype, [&](auto* to_type) {
      copy(static_cast<const std::remove_pointer_t<decltype(from_type)>*>(from.data),
           static_cast<decltype(to_type)>(to.data));
    });
  });
}

void fill_random(CudaDevice& device, const Tensor& to) {
  with_element_type(to.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch("fill_random", device.grid_for(to.elements()), device.compute.get(), random_kernel<T>,
           to.elements(), static_cast<T*>(to.data));
  });
}

}  // namespace pfc
