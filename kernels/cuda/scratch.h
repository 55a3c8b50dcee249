// Sizes of GPU buffers and upper bounds on scratch memory. Does not include CUDA headers, because
// `pfcctl plan` also runs on machines without CUDA.
#pragma once

#include <cstddef>

namespace pfc {

/// Returns the bytes of reserved GPU memory that Ops::allocate() uses for `bytes`.
constexpr std::size_t gpu_allocation(std::size_t bytes) {
  constexpr std::size_t kAlignment = 512;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Upper bound on the workspace of a convolution's algorithm.
inline constexpr std::size_t kMostConvolutionWorkspace = std::size_t{448} << 20;
/// Upper bound on the scratch memory.
inline constexpr std::size_t kMostScratch = std::size_t{512} << 20;

}  // namespace pfc
