// The matrix products of the margin softmax over one tile of classes.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/tensor.h"

namespace pfc {

/// Number of classes in a tile. Products [tile, N], rows and gradients [tile, D] fit into a core's
/// cache together with the embeddings.
constexpr std::int64_t kTileClasses = 192;

/// Shared by the threads of an OpenMP team. Thread number `part` calls forward() and backward(),
/// which compute on its own core. They return false when oneDNN failed, as a thread of a team must
/// not throw. REQUIRES: memory for a tile has kTileClasses rows, also when `classes` is less; the
/// contents of the rows after `classes` are undefined.
class TileProducts {
 public:
  virtual ~TileProducts() = default;

  /// The type of the centres that forward() and backward() read: kFloat32 or kBFloat16.
  [[nodiscard]] virtual DType row_type() const = 0;

  /// Sets the normalised embeddings unit [N, D] of a step, borrowed until the next call. REQUIRES:
  /// called outside the team, before the tiles of the step.
  virtual void set_embeddings(const float* unit, std::int64_t samples, std::int64_t dimension,
                              int parts) = 0;

  /// products [tile, N] = rows [tile, D] * transposed unit.
  virtual bool forward(int part, const void* rows, std::int64_t classes, float* products) = 0;

  /// From factors g [tile, N]: gradients [tile, D] = g * unit, and d_unit [N, D] += transposed g *
  /// rows. Either may be null: it is not computed. Overwrites the rows of g after `classes`.
  virtual bool backward(int part, float* g, const void* rows, std::int64_t classes,
                        float* gradients, float* d_unit) = 0;
};

/// In float32, by oneDNN's sgemm.
std::unique_ptr<TileProducts> make_float_tile_products();

/// With bfloat16 operands, float32 sums and float32 results. Throws InputError on a CPU without
/// instructions for bfloat16.
std::unique_ptr<TileProducts> make_bfloat16_tile_products();
/// Whether make_bfloat16_tile_products() works on this CPU.
bool cpu_has_bfloat16();

/// Bytes that the products of a team of `parts` threads keep for N samples: copies of the
/// embeddings in the layouts that are multiplied, and the factors of a tile. For bfloat16 oneDNN
/// may pad the layouts and takes some scratch, which is not counted.
std::int64_t tile_products_bytes(bool bfloat16, std::int64_t samples, std::int64_t dimension,
                                 int parts);

}  // namespace pfc
