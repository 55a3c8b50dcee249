// The matrix products of the margin softmax over one tile of classes.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/tensor.h"

namespace pfc {

/// Classes a tile: products [tile, N], rows and gradients [tile, D] stay in a core's cache together
/// with the embeddings.
constexpr std::int64_t kTileClasses = 192;

/// Shared by the threads of a team, each of which is a `part`; a call computes on its own core.
/// Memory for a tile must have kTileClasses rows, whatever `classes` is: products of the others are
/// undefined. A member of a team cannot throw: false says that oneDNN failed.
class TileProducts {
 public:
  virtual ~TileProducts() = default;

  /// What the rows of a tile must be: kFloat32 or kBFloat16.
  [[nodiscard]] virtual DType row_type() const = 0;

  /// Before the tiles of a step, outside the team: unit is [N, D], borrowed until the next call.
  virtual void set_embeddings(const float* unit, std::int64_t samples, std::int64_t dimension,
                              int parts) = 0;

  /// products [tile, N] = rows [tile, D] unit'.
  virtual bool forward(int part, const void* rows, std::int64_t classes, float* products) = 0;

  /// By factors g [tile, N]: gradients [tile, D] = g unit, and d_unit [N, D] += g' rows. Rows of g
  /// behind `classes` are overwritten.
  virtual bool backward(int part, float* g, const void* rows, std::int64_t classes,
                        float* gradients, float* d_unit) = 0;
};

/// float32, by oneDNN's sgemm.
std::unique_ptr<TileProducts> make_float_tile_products();

/// bfloat16 operands, float32 sums and results. Throws InputError on a CPU without instructions for
/// it.
std::unique_ptr<TileProducts> make_bfloat16_tile_products();
bool cpu_has_bfloat16();

/// Bytes that the products of a team of `parts` threads keep for N samples: copies of the
/// embeddings in the layouts that are multiplied, and the factors of a tile. For bfloat16 oneDNN
/// may pad the layouts and takes some scratch, which is not counted.
std::int64_t tile_products_bytes(bool bfloat16, std::int64_t samples, std::int64_t dimension,
                                 int parts);

}  // namespace pfc
