// Two passes over a tile's products: forward() makes statistics, backward() makes factors.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/device.h"
#include "kernels/margin/margin_softmax.h"
#include "kernels/tensor.h"

namespace pfc {

/// Products [classes, samples] of each centre (not normalised) with each normalised embedding, in
/// device memory. `samples` is padded to a multiple of 8; padding contains zeros.
struct ProductTile {
  std::int64_t begin = 0;  ///< index of the tile's first class among the active classes
  std::int64_t classes = 0;
  std::int64_t samples = 0;
  const float* products = nullptr;
  const float* inverse_norms = nullptr;  ///< [classes]; nullptr: the products are cosines
  const float* offsets = nullptr;        ///< [classes], added to the logits; nullptr: `offset`
  float offset = 0.f;                    ///< added to all logits
  /// [most_targets, samples], index of an active class; -1: none here.
  const std::int32_t* targets = nullptr;
  std::int32_t most_targets = 1;
  /// [samples]: active classes in each sample's softmax; nullptr: all.
  const ActiveRange* ranges = nullptr;
  const float* hard_above = nullptr;  ///< [samples]: MarginSoftmax::Batch; nullptr: none
  float hardness = 0.f;
  bool smoothed = false;             ///< fold_tile() computes LogitStatistics::second
  const float* smoothing = nullptr;  ///< [samples], for make_factors() if smoothed
  bool binary = false;  ///< MarginSoftmaxOptions::binary; fold_tile() computes `second`, too
  float scale = 1.f;
  float limit = 1.f;      ///< largest cosine: 1; infinity in a plain softmax
  float threshold = 0.f;  ///< cosines above it count as 0; infinity: no filter
};

/// The products [classes * sub_centres, samples] of a tile whose classes have several centres.
struct SubCentreProducts {
  std::int64_t classes = 0, sub_centres = 1, samples = 0;
  const float* products = nullptr;
  const float* inverse_norms = nullptr;  ///< [classes * sub_centres]
};

/// Fills cosines [classes, samples] with the largest cosine of each class. A NaN counts as the
/// largest.
void largest_cosines(const CudaDevice& device, const SubCentreProducts& tile, float* cosines);

/// The backward pass of largest_cosines(): fills `out` [at least the tile's rows, samples], float32
/// or bf16. The first centre with the largest cosine gets factors [classes, samples] / the centre's
/// length. The other centres, and the rows after the tile's, get 0. A float32 `out` may be the same
/// memory as the products.
void spread_factors(const CudaDevice& device, const SubCentreProducts& tile, const float* factors,
                    const Tensor& out);

/// Statistics of all logits except the targets': [slots, samples]. See MarginPlan::slots.
struct LogitStatistics {
  float* max = nullptr;
  double* sum = nullptr;  ///< sum of exp(logit - max)
  /// Smoothed tiles: the sum of the logits. Binary tiles: the sum of sigmoid(logit); max is then 0,
  /// and sum is that of log(1 + exp(logit)). Other tiles: nullptr.
  double* second = nullptr;
  int slots = 1;
};

/// Adds a tile to the running statistics; overwrites them if `first`.
void fold_tile(const CudaDevice& device, const ProductTile& tile, const LogitStatistics& running,
               bool first);

/// Writes the factors of both gradients to `out` [at least the tile's classes, samples], float32 or
/// bf16. A factor is
///   (factor * exp(logit - max) - smoothing) / |centre|
/// or 0 for targets, filtered classes and classes outside a sample's range. In a binary tile,
/// sigmoid(logit) replaces exp(logit - max). Sets the rows after the tile's classes to zero. A
/// float32 `out` may be the same memory as the products. max and factor are [samples]. The sum over
/// samples of factors * embedding is a centre's gradient (its component along the centre is
/// subtracted later); the sum over classes of factors * centre is an embedding's gradient.
void make_factors(const CudaDevice& device, const ProductTile& tile, const float* max,
                  const float* factor, const Tensor& out);

}  // namespace pfc
