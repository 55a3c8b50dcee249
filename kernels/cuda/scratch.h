// Upper bounds on the scratch memory of a GPU. This file includes no header of CUDA, because
// `pfcctl plan` also runs where CUDA is not installed.
#pragma once

#include <cstddef>

namespace pfc {

/// Upper bound on the workspace of a convolution's algorithm.
inline constexpr std::size_t kMostConvolutionWorkspace = std::size_t{496} << 20;
/// Upper bound on the scratch area: that workspace and a convolution's dw in the type of its
/// inputs. For example, dw of 3 x 3 x 512 x 512 in bf16 takes 5 MiB.
inline constexpr std::size_t kMostScratch = std::size_t{512} << 20;

}  // namespace pfc
