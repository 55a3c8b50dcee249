// The margin softmax of one tile of classes, computed by one thread.
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

/// What all threads read in a step. All memory is borrowed.
struct MarginStep {
  const MarginSoftmaxOptions& options;
  const CentreRows& rows;
  TileProducts& products;
  MarginSoftmax::Batch batch;
  ActiveRows active = {};
  std::int64_t samples = 0;
  Angle* angles = nullptr;  ///< [positives]
  // For the backward pass, from combine(): one number for each sample.
  const float* max = nullptr;             ///< the largest logit but the target's, of all workers
  const float* factor = nullptr;          ///< d loss / d cos = factor * exp(logit - max)
  const double* target_factor = nullptr;  ///< d loss / d target cos
};

/// Active classes [begin, end) and the positives among them.
struct ClassTile {
  std::int64_t begin = 0, end = 0;
  std::span<const Positive> positives;
  std::int64_t first_positive = 0;  ///< index of positives[0] among the step's positives
  float* kept = nullptr;  ///< [kTileClasses, N]: keeps the products from forward() to backward();
                          ///< null: backward() computes them again
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// Which gradients a backward pass over the tiles computes.
struct TileGradients {
  bool embeddings = true, centres = true;
};

/// Belongs to one thread. Owns memory for one tile and for this thread's part of every sum.
class MarginTileWorker {
 public:
  MarginTileWorker(const VectorKernels& kernels, int part) : kernels_(kernels), part_(part) {}

  /// Allocates memory for steps of this size, where the present memory is too small. No other call
  /// throws.
  void allocate(const MarginStep& step);
  /// Bytes that allocate() takes for N samples and product operands of `row_type`.
  [[nodiscard]] static std::int64_t bytes(std::int64_t samples, std::int64_t dimension,
                                          DType row_type, bool ranges);

  void begin_forward();
  void forward(const MarginStep& step, const ClassTile& tile);
  /// Statistics of the tiles so far, without targets.
  [[nodiscard]] RowStatistics statistics(std::int64_t sample) const;

  void begin_backward();
  /// Adds the tile's part to d_unit(), computes the gradients of the tile's centres, or both.
  void backward(const MarginStep& step, const ClassTile& tile, TileGradients wanted);
  /// The gradient of the tile's class i; valid until the next call of backward().
  [[nodiscard]] CentreGradient gradient(std::int64_t i) const {
    const auto k = static_cast<std::size_t>(i);
    return {gradients_.data() + k * dimension_, along_[k], inverse_norms_[k]};
  }
  /// [N, D]: gradients of the normalised embeddings.
  [[nodiscard]] const float* d_unit() const { return d_unit_.data(); }
  [[nodiscard]] bool failed() const { return failed_; }  ///< whether oneDNN failed on a product

 private:
  template <typename F>
  void each_array(std::size_t samples, std::size_t dimension, DType row_type, bool ranges,
                  const F& f);
  void leave_out_other_heads(const MarginStep& step, const ClassTile& tile);
  void gather(const MarginStep& step, const ClassTile& tile);
  void add_target_gradients(const MarginStep& step, const ClassTile& tile, TileGradients wanted);
  /// The centre of a positive's class in float32, also where the products read bfloat16.
  const float* float_row(const MarginStep& step, const ClassTile& tile, const Positive& p);
  [[nodiscard]] MarginTile describe(const MarginStep& step, const ClassTile& tile);

  const VectorKernels& kernels_;
  const int part_;
  std::size_t dimension_ = 0;
  CentreRows::Scratch scratch_;
  std::vector<float> products_;                   // [tile, N]
  std::vector<float> gradients_;                  // [tile, D]
  std::vector<float> inverse_norms_, along_;      // [tile]
  std::vector<std::int64_t> left_out_;            // products of targets and of other heads
  const void* rows_ = nullptr;                    // [tile, D]: the table's or scratch_'s
  std::vector<float> max_, tile_max_, tile_sum_;  // [N]
  std::vector<double> sum_;                       // [N]
  std::vector<float> d_unit_;                     // [N, D]
  bool failed_ = false;
};

}  // namespace pfc
