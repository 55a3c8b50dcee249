// The matrix products of the margin softmax over one tile of classes.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/vector/vector_kernels.h"
#include "kernels/tensor.h"

namespace pfc {

/// Number of classes in a tile. Products [tile, N] and rows [tile, D] fit into a core's cache
/// together with the embeddings, with what is prefetched for the next tile, and with its update.
constexpr std::int64_t kTileClasses = 96;
/// Number of classes of which the gradients are computed at a time.
constexpr std::int64_t kGradientClasses = 24;

/// Numbers from one row of a tile to the next: D, rounded up to whole vectors.
constexpr std::int64_t tile_row_stride(std::int64_t dimension) {
  constexpr std::int64_t kNumbers = 32;
  return (dimension + kNumbers - 1) / kNumbers * kNumbers;
}

/// Shared by the threads of an OpenMP team. Thread number `part` calls the products, which compute
/// on its own core. They return false when oneDNN failed, as a thread of a team must not throw.
/// REQUIRES: rows are [classes, tile_row_stride(D)], with zeros behind D. Memory for a tile has
/// kTileClasses rows, also when `classes` is less; rows after them hold finite numbers.
class TileProducts {
 public:
  virtual ~TileProducts() = default;

  /// The type of the centres that the products read: kFloat32 or kBFloat16.
  [[nodiscard]] virtual DType row_type() const = 0;
  /// How many steps of a PrefetchList one product over so many classes makes; 0: it takes none.
  [[nodiscard]] virtual std::int64_t prefetch_steps(std::int64_t classes) const = 0;

  /// Sets the normalised embeddings unit [N, D] of a step, borrowed until the next call. REQUIRES:
  /// called outside the team, before the tiles of the step.
  virtual void set_embeddings(const float* unit, std::int64_t samples, std::int64_t dimension,
                              int parts) = 0;

  /// products [classes, N] = rows * transposed unit. Has room for a whole tile.
  virtual bool forward(int part, const void* rows, std::int64_t classes, float* products,
                       PrefetchList& soon) = 0;

  /// Takes the factors g [classes, N] of the next two products, borrowed until the next call.
  /// Overwrites the rows of g after `classes`, up to a whole tile.
  virtual void set_factors(int part, float* g, std::int64_t classes) = 0;
  /// d_unit [N, D] += transposed g * rows.
  virtual bool add_embedding_gradients(int part, const void* rows, float* d_unit,
                                       PrefetchList& soon) = 0;
  /// gradients [count, D] = rows first to first + count of g * unit. Has room for kGradientClasses.
  /// REQUIRES: first is a multiple of kGradientClasses and count at most that.
  virtual bool centre_gradients(int part, std::int64_t first, std::int64_t count, float* gradients,
                                PrefetchList& soon) = 0;
};

/// In float32.
std::unique_ptr<TileProducts> make_float_tile_products(const VectorKernels& kernels);

/// With bfloat16 operands, float32 sums and float32 results. Throws InputError on a CPU without
/// instructions for bfloat16.
std::unique_ptr<TileProducts> make_bfloat16_tile_products();
/// The two ways to do it: with avx512_bf16's instructions, and by oneDNN, which knows AMX.
/// REQUIRES: cpu_has_bfloat16().
std::unique_ptr<TileProducts> make_vector_bfloat16_tile_products(const VectorKernels& kernels);
std::unique_ptr<TileProducts> make_dnnl_tile_products();
/// Whether make_bfloat16_tile_products() works here: the CPU has avx512_bf16, and nothing keeps
/// oneDNN from using it (DNNL_MAX_CPU_ISA).
bool cpu_has_bfloat16();

/// Bytes that the products of a team of `parts` threads keep for N samples: copies of the
/// embeddings in the layouts that are multiplied, and the factors of a tile. With AMX oneDNN may
/// pad the layouts and takes some scratch, which is not counted.
std::int64_t tile_products_bytes(bool bfloat16, std::int64_t samples, std::int64_t dimension,
                                 int parts);

}  // namespace pfc
