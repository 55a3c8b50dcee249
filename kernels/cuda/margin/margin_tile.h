// The two passes over a tile of products between its matrix products.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/device.h"
#include "kernels/tensor.h"

namespace pfc {

/// Products [classes, samples] of each centre, not normalised, with each normalised embedding, in
/// device memory. `samples` is a multiple of 8; those behind the last one are zeros.
struct ProductTile {
  std::int64_t begin = 0;  ///< the tile's first class among the active ones
  std::int64_t classes = 0;
  std::int64_t samples = 0;
  const float* products = nullptr;
  const float* inverse_norms = nullptr;   ///< [classes]
  const std::int32_t* targets = nullptr;  ///< [samples], among the active ones; -1: none here
  float scale = 1.f;
  float threshold = 0.f;  ///< a cosine above it counts as 0; infinity: no filter
};

/// Statistics of all logits but the targets', by slot: [slots, samples].
struct LogitStatistics {
  float* max = nullptr;
  double* sum = nullptr;  ///< of exp(logit - max)
  int slots = 1;
};

/// Adds a tile to them; the first one overwrites.
void fold_tile(const CudaDevice& device, const ProductTile& tile, const LogitStatistics& running,
               bool first);

/// What the sum over samples of factor * embedding makes a centre's gradient (before the part along
/// the centre is taken off), and the sum over classes of factor * centre an embedding's:
///   factor * exp(logit - max) / |centre|, for targets and filtered ones 0
/// to `out` [at least the tile's classes, samples], float32 (may be the products' memory) or bf16;
/// zeros behind the tile's classes. max and factor: [samples].
void make_factors(const CudaDevice& device, const ProductTile& tile, const float* max,
                  const float* factor, const Tensor& out);

}  // namespace pfc
