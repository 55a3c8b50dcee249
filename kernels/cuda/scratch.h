// How much memory of a GPU is taken: by a buffer, and at most by scratch. This file includes no
// header of CUDA, because `pfcctl plan` also runs where CUDA is not installed.
#pragma once

#include <cstddef>

namespace pfc {

/// What Ops::allocate() takes of a GPU's reserved memory for a buffer of so many bytes.
constexpr std::size_t gpu_allocation(std::size_t bytes) {
  constexpr std::size_t kAlignment = 512;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Upper bound on the workspace of a convolution's algorithm.
inline constexpr std::size_t kMostConvolutionWorkspace = std::size_t{448} << 20;
/// Upper bound on the copies in float32 that the gradient of a convolution's weights is computed
/// from, where one image fits. They are read soon after they are written, so most of them should
/// still be in the second-level cache then.
inline constexpr std::size_t kMostConvolutionCopies = std::size_t{32} << 20;
/// Upper bound on the scratch area.
inline constexpr std::size_t kMostScratch = std::size_t{512} << 20;

}  // namespace pfc
