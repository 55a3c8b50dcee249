// One thread's work on tiles of classes: what the streaming margin softmax does between GEMMs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/vector/vector_kernels.h"
#include "kernels/margin_softmax.h"
#include "kernels/math/margin.h"

namespace pfc {

/// What all threads read in a step. Borrowed.
struct MarginStep {
  const MarginSoftmaxOptions& options;
  const CentreTable& table;
  MarginSoftmax::Batch batch;
  std::int64_t samples = 0;
  std::int64_t dimension = 0;
  const float* unit = nullptr;             ///< [N, D] normalised embeddings
  const float* unit_transposed = nullptr;  ///< [D, N]
  Angle* angles = nullptr;                 ///< [positives]
  // What combine() found, per sample; for the backward pass.
  const float* max = nullptr;
  const float* factor = nullptr;          ///< d loss / d cos = factor * exp(logit - max)
  const double* target_factor = nullptr;  ///< d loss / d target cos
};

/// Tile number `index`: active classes [begin, end) and the positives among them.
struct ClassTile {
  std::int64_t begin = 0, end = 0;
  std::span<const Positive> positives;
  std::int64_t first_positive = 0;  ///< of the step's positives
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// Classes a tile: products [tile, N], rows and gradients [tile, D] stay in a core's cache together
/// with the embeddings.
constexpr std::int64_t kTileClasses = 192;

/// Belongs to one thread. Memory for one tile and for this thread's part of every sum.
class MarginTileWorker {
 public:
  explicit MarginTileWorker(const VectorKernels& kernels) : kernels_(kernels) {}

  /// Memory for steps of this size; keeps what is large enough. The only call that may throw.
  void allocate(const MarginStep& step);

  void begin_forward();
  void forward(const MarginStep& step, const ClassTile& tile);
  /// This thread's statistics so far, without targets.
  [[nodiscard]] RowStatistics statistics(std::int64_t sample) const;

  void begin_backward();
  /// Adds to d_unit(); returns the gradients of the tile's centres [tile, D], valid until the next
  /// tile.
  float* backward(const MarginStep& step, const ClassTile& tile);
  [[nodiscard]] const float* d_unit() const { return d_unit_.data(); }  ///< [N, D]
  [[nodiscard]] bool failed() const { return failed_; }  ///< oneDNN refused a product

 private:
  void multiply(char transpose_a, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                const float* b, float beta, float* c);
  void make_products(const MarginStep& step, const ClassTile& tile);
  void add_target_gradients(const MarginStep& step, const ClassTile& tile);
  [[nodiscard]] MarginTile describe(const MarginStep& step, const ClassTile& tile);

  const VectorKernels& kernels_;
  std::vector<float> products_;   // [tile, N]
  std::vector<float> gathered_;   // [tile, D]: rows that do not follow one another
  std::vector<float> gradients_;  // [tile, D]
  std::vector<float> inverse_norms_;
  std::vector<std::int64_t> targets_;
  const float* rows_ = nullptr;                   // [tile, D]: the table's or gathered_
  std::vector<float> max_, tile_max_, tile_sum_;  // [N]
  std::vector<double> sum_;                       // [N]
  std::vector<float> d_unit_;                     // [N, D]
  bool failed_ = false;
};

}  // namespace pfc
