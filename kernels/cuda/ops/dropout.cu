#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/cuda/primitives/numbers.h"
#include "kernels/math/masks/dropout.h"

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

/// For groups of elements that share one random number. A block computes a part of one group.
template <typename T>
__global__ void group_dropout_kernel(std::int64_t n, DropoutOptions o, const T* x, T* y) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * o.group;
  const std::int64_t end = begin + o.group < n ? begin + o.group : n;
  const float factor =
      dropout_factor(o.probability, o.seed, o.step, o.first_element + std::uint64_t{blockIdx.x});
  const std::int64_t stride = std::int64_t{gridDim.y} * blockDim.x;
  for (std::int64_t i = begin + std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < end;
       i += stride) {
    y[i] = from_float<T>(to_float(x[i]) * factor);
  }
}

}  // namespace

void CudaOps::run_dropout(const Tensor& x, const Tensor& y, const DropoutOptions& o) {
  with_element_type(x.dtype, [&](auto* type) {
    using Pointer = decltype(type);
    using Element = std::remove_pointer_t<Pointer>;
    if (o.group > 1) {
      constexpr unsigned kBlocksEach = 8;
      const auto groups = static_cast<unsigned>((x.elements() + o.group - 1) / o.group);
      launch("dropout", {.blocks = dim3(groups, kBlocksEach), .threads = dim3(kThreads)},
             device_.compute.get(), group_dropout_kernel<Element>, x.elements(), o,
             static_cast<const Element*>(x.data), static_cast<Pointer>(y.data));
      return;
    }
    launch("dropout", device_.grid_for(x.elements() / 4 + 2), device_.compute.get(),
           dropout_kernel<Element>, x.elements(), o, static_cast<const Element*>(x.data),
           static_cast<Pointer>(y.data));
  });
}

}  // namespace pfc
