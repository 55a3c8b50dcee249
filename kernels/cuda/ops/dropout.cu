#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/cuda/primitives/numbers.h"
#include "kernels/math/dropout.h"

namespace pfc {
namespace {

/// A thread computes the four elements that share a Philox block. Elements are numbered over the
/// whole batch of all workers, so this tensor may start in the middle of a block.
template <typename T>
__global__ void dropout_kernel(std::int64_t n, DropoutOptions o, const T* x, T* y) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  const auto before = static_cast<std::int64_t>(o.first_element % 4);
  const std::int64_t groups = (before + n + 3) / 4;
  const float kept = 1.f / (1.f - o.probability);
  for (std::int64_t g = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; g < groups;
       g += stride) {
    const Philox4 words = random_words(o.seed, Stream::kDropout, o.step,
                                       o.first_element / 4 + static_cast<std::uint64_t>(g));
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const std::int64_t i = g * 4 + k - before;
      if (i < 0 || i >= n) continue;
      const float factor = uniform01(words.x[k]) < o.probability ? 0.f : kept;
      y[i] = from_float<T>(to_float(x[i]) * factor);
    }
  }
}

}  // namespace

void CudaOps::run_dropout(const Tensor& x, const Tensor& y, const DropoutOptions& o) {
  with_element_type(x.dtype, [&](auto* type) {
    using Pointer = decltype(type);
    using Element = std::remove_pointer_t<Pointer>;
    launch("dropout", device_.grid_for(x.elements() / 4 + 2), device_.compute.get(),
           dropout_kernel<Element>, x.elements(), o, static_cast<const Element*>(x.data),
           static_cast<Pointer>(y.data));
  });
}

}  // namespace pfc
