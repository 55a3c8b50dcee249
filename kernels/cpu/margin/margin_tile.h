// One thread's work on tiles of classes: what the streaming margin softmax does between GEMMs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/margin/centre_rows.h"
#include "kernels/cpu/margin/tile_products.h"
#include "kernels/cpu/vector/vector_kernels.h"
#include "kernels/margin/margin_softmax.h"
#include "kernels/math/margin.h"

namespace pfc {

/// What all threads read in a step. Borrowed.
struct MarginStep {
  const MarginSoftmaxOptions& options;
  const CentreRows& rows;
  TileProducts& products;
  MarginSoftmax::Batch batch;
  ActiveRows active = {};
  std::int64_t samples = 0;
  Angle* angles = nullptr;  ///< [positives]
  // What combine() found, per sample; for the backward pass.
  const float* max = nullptr;
  const float* factor = nullptr;          ///< d loss / d cos = factor * exp(logit - max)
  const double* target_factor = nullptr;  ///< d loss / d target cos
};

/// Active classes [begin, end) and the positives among them.
struct ClassTile {
  std::int64_t begin = 0, end = 0;
  std::span<const Positive> positives;
  std::int64_t first_positive = 0;  ///< of the step's positives
  float* kept = nullptr;  ///< [kTileClasses, N]: products live here from forward to backward;
                          ///< null: they are made again
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// Belongs to one thread. Owns memory for one tile and for this thread's part of every sum.
class MarginTileWorker {
 public:
  MarginTileWorker(const VectorKernels& kernels, int part) : kernels_(kernels), part_(part) {}

  /// Memory for steps of this size; keeps what is large enough. The only call that may throw.
  void allocate(const MarginStep& step);
  /// Bytes that allocate() takes for N samples and product operands of `row_type`.
  [[nodiscard]] static std::int64_t bytes(std::int64_t samples, std::int64_t dimension,
                                          DType row_type);

  void begin_forward();
  void forward(const MarginStep& step, const ClassTile& tile);
  /// This thread's statistics so far, without targets.
  [[nodiscard]] RowStatistics statistics(std::int64_t sample) const;

  void begin_backward();
  /// Adds to d_unit() and makes the gradients of the tile's centres.
  void backward(const MarginStep& step, const ClassTile& tile);
  /// Of the tile's class i, until the next tile.
  [[nodiscard]] CentreGradient gradient(std::int64_t i) const {
    const auto k = static_cast<std::size_t>(i);
    return {gradients_.data() + k * dimension_, along_[k], inverse_norms_[k]};
  }
  [[nodiscard]] const float* d_unit() const { return d_unit_.data(); }  ///< [N, D]
  [[nodiscard]] bool failed() const { return failed_; }  ///< oneDNN refused a product

 private:
  template <typename F>
  void each_array(std::size_t samples, std::size_t dimension, DType row_type, const F& f);
  void gather(const MarginStep& step, const ClassTile& tile);
  void add_target_gradients(const MarginStep& step, const ClassTile& tile);
  /// The tile's row of a positive, in float32 whatever the products' operands are.
  const float* float_row(const MarginStep& step, const ClassTile& tile, const Positive& p);
  [[nodiscard]] MarginTile describe(const MarginStep& step, const ClassTile& tile);

  const VectorKernels& kernels_;
  const int part_;
  std::size_t dimension_ = 0;
  CentreRows::Scratch scratch_;
  std::vector<float> products_;               // [tile, N]
  std::vector<float> gradients_;              // [tile, D]
  std::vector<float> inverse_norms_, along_;  // [tile]
  std::vector<std::int64_t> targets_;
  const void* rows_ = nullptr;                    // [tile, D]: the table's or scratch_'s
  std::vector<float> max_, tile_max_, tile_sum_;  // [N]
  std::vector<double> sum_;                       // [N]
  std::vector<float> d_unit_;                     // [N, D]
  bool failed_ = false;
};

}  // namespace pfc
