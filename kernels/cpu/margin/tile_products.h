// Matrix products of the margin softmax over one tile of rows: the class centres.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/vector/vector_kernels.h"
#include "kernels/tensor.h"

namespace pfc {

/// Number of rows in a tile. Products [tile, N] and rows [tile, D] fit into a core's cache
/// together with the embeddings, the data prefetched for the next tile, and the update.
constexpr std::int64_t kTileRows = 96;
/// Number of rows whose gradients are computed at a time.
constexpr std::int64_t kGradientRows = 24;

/// Returns the distance between rows of a tile: D, rounded up to whole vectors.
constexpr std::int64_t tile_row_stride(std::int64_t dimension) {
  constexpr std::int64_t kNumbers = 32;
  return (dimension + kNumbers - 1) / kNumbers * kNumbers;
}

/// Shared by the threads of an OpenMP team. Each thread passes its number as `part`; the product
/// runs in that thread. Returns false if oneDNN failed, because threads of a team must not throw.
/// REQUIRES: rows are [classes, tile_row_stride(D)], with zeros after D. Memory for a tile always
/// has kTileRows rows; rows after `classes` contain finite numbers.
class TileProducts {
 public:
  virtual ~TileProducts() = default;

  /// Returns the type of the centres that the products read: kFloat32 or kBFloat16.
  [[nodiscard]] virtual DType row_type() const = 0;
  /// Returns how many PrefetchList steps a product over `classes` classes makes; 0 for none.
  [[nodiscard]] virtual std::int64_t prefetch_steps(std::int64_t classes) const = 0;

  /// Sets the normalised embeddings unit [N, D] of a step, borrowed until the next call. REQUIRES:
  /// called outside the team, before the tiles of the step.
  virtual void set_embeddings(const float* unit, std::int64_t samples, std::int64_t dimension,
                              int parts) = 0;

  /// Computes products [classes, N] = rows * transposed unit. REQUIRES: room for a whole tile.
  virtual bool forward(int part, const void* rows, std::int64_t classes, float* products,
                       PrefetchList& soon) = 0;

  /// Sets the factors g [classes, N] of the next two products, borrowed until the next call.
  /// Overwrites the rows of g after `classes`, up to a whole tile.
  virtual void set_factors(int part, float* g, std::int64_t classes) = 0;
  /// Computes d_unit [N, D] += transposed g * rows.
  virtual bool add_embedding_gradients(int part, const void* rows, float* d_unit,
                                       PrefetchList& soon) = 0;
  /// Computes gradients [count, D] = rows [first, first + count) of the product g * unit. REQUIRES:
  /// `gradients` has room for kGradientRows; first is a multiple of kGradientRows; count is at most
  /// kGradientRows.
  virtual bool centre_gradients(int part, std::int64_t first, std::int64_t count, float* gradients,
                                PrefetchList& soon) = 0;
};

/// Computes in float32.
std::unique_ptr<TileProducts> make_float_tile_products(const VectorKernels& kernels);

/// bfloat16 operands, float32 sums and results. Throws InputError on a CPU without bfloat16.
std::unique_ptr<TileProducts> make_bfloat16_tile_products();
/// The two implementations: with avx512_bf16 instructions, and with oneDNN, which supports AMX.
/// REQUIRES: cpu_has_bfloat16().
std::unique_ptr<TileProducts> make_vector_bfloat16_tile_products(const VectorKernels& kernels);
std::unique_ptr<TileProducts> make_dnnl_tile_products();
/// Returns whether make_bfloat16_tile_products() works here: the CPU has avx512_bf16, and oneDNN
/// may use it (DNNL_MAX_CPU_ISA).
bool cpu_has_bfloat16();

/// Returns the bytes that the products of a team of `parts` threads keep for N samples: copies of
/// the embeddings in the layouts for multiplication, and the factors of a tile. With AMX oneDNN
/// may pad the layouts and uses scratch, which is not counted.
std::int64_t tile_products_bytes(bool bfloat16, std::int64_t samples, std::int64_t dimension,
                                 int parts);

}  // namespace pfc
