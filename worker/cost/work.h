// Counted work of a training step: the input of the cost model (docs/capacity.md).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

namespace pfc {

/// Kinds of ops with separate rates. Dense convolutions come in three forms: with windows; with
/// windows and a stride above 1; and with single pixels, which are matrix products. Depthwise ones
/// move bytes and hardly multiply. A batch norm has four passes over its tensors.
enum class OpKind {
  kConvolution,
  kConvolutionData,
  kConvolutionWeights,
  kStrided,
  kStridedData,
  kStridedWeights,
  kPointwise,
  kPointwiseData,
  kPointwiseWeights,
  kDepthwise,
  kDepthwiseData,
  kDepthwiseWeights,
  kNormStatistics,
  kNormForward,
  kNormReduce,
  kNormApply,
  kProduct,
  kElementwise,
  kUpdate,
};

inline constexpr std::array<std::string_view, 19> kOpNames = {
    "convolution",     "convolution_data", "convolution_weights",
    "strided",         "strided_data",     "strided_weights",
    "pointwise",       "pointwise_data",   "pointwise_weights",
    "depthwise",       "depthwise_data",   "depthwise_weights",
    "norm_statistics", "norm_forward",     "norm_reduce",
    "norm_apply",      "product",          "elementwise",
    "update"};
inline constexpr std::size_t kOpKinds = kOpNames.size();

constexpr std::string_view name_of(OpKind kind) { return kOpNames[static_cast<std::size_t>(kind)]; }

/// One call of an op.
struct OpWork {
  OpKind kind = OpKind::kElementwise;
  double flops = 0;  ///< number of multiplications and additions
  double bytes = 0;  ///< size of its tensors, counted once for each read or write
};

using OpWorks = std::vector<OpWork>;

}  // namespace pfc
