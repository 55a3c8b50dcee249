// How much scratch memory kernels may ask for. Without CUDA's headers: `pfcctl plan` asks
// everywhere.
#pragma once

#include <cstddef>

namespace pfc {

/// The most that a convolution's algorithm may have as its workspace.
inline constexpr std::size_t kMostConvolutionWorkspace = std::size_t{496} << 20;
/// With that workspace, and beside it a convolution's dw in the inputs' type: 3 x 3 x 512 x 512
/// in bf16 takes 5 MiB.
inline constexpr std::size_t kMostScratch = std::size_t{512} << 20;

}  // namespace pfc
