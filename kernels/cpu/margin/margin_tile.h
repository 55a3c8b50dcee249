// The margin softmax for one tile of classes on one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/margin/centre_rows.h"
#include "kernels/cpu/margin/teacher_logits.h"
#include "kernels/cpu/margin/tile_products.h"
#include "kernels/cpu/vector/vector_kernels.h"
#include "kernels/margin/margin_softmax.h"
#include "kernels/math/margin.h"

namespace pfc {

/// Input of all threads in a step. All memory is borrowed.
struct MarginStep {
  const MarginSoftmaxOptions& options;
  const CentreRows& rows;
  TileProducts& products;
  MarginSoftmax::Batch batch;        ///< with a bias, its embeddings end with a 1
  TeacherLogits* teacher = nullptr;  ///< nullptr: no distillation of logits
  ActiveRows active = {};
  std::int64_t samples = 0;
  Angle* angles = nullptr;  ///< [positives]: between the sample and the nearest centre of its class
  std::int64_t* target_rows = nullptr;  ///< [positives]: index of that centre in `active`
  /// [N], or nullptr: Batch::ranges as two arrays.
  const std::int32_t *range_begin = nullptr, *range_end = nullptr;
  // For the backward pass, from combine(): one number per sample.
  const float* max = nullptr;        ///< largest logit except the targets', over all workers
  const float* factor = nullptr;     ///< d loss / d cos = factor * exp(logit - max)
  const float* smoothing = nullptr;  ///< subtracted from `factor` * exp(logit - max); nullptr: 0
  const double* target_factor = nullptr;  ///< [positives]: d loss / d target cos
};

/// Returns the rows of a tile: whole classes, at most kTileRows rows.
constexpr std::int64_t rows_of_tile(std::int64_t sub_centres) {
  return kTileRows / sub_centres * sub_centres;
}

/// Active rows [begin, end), those of whole classes, and the positives of these classes.
struct ClassTile {
  std::int64_t begin = 0, end = 0;
  std::span<const Positive> positives;
  std::int64_t first_positive = 0;  ///< index of positives[0] in the step's positives
  float* kept = nullptr;       ///< [kTileRows, N]: keeps the products from forward() to backward();
                               ///< nullptr: backward() recomputes them
  std::int64_t next_end = 0;   ///< the next tile of this thread is [end, next_end)
  float* next_kept = nullptr;  ///< `kept` of that tile
  bool first = false;          ///< first tile of this thread
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// Gradients to compute in a backward pass over the tiles.
struct TileGradients {
  bool embeddings = true, centres = true;
  bool state = true;  ///< whether the sink for centres reads the optimizer's state
};

/// Used by one thread. Owns memory for one tile and for this thread's part of every sum.
class MarginTileWorker {
 public:
  MarginTileWorker(const VectorKernels& kernels, int part) : kernels_(kernels), part_(part) {}

  /// Allocates memory for steps of this size, if necessary. No other call throws.
  void allocate(const MarginStep& step);
  /// Returns the bytes that allocate() needs for N samples and product operands of `row_type`.
  [[nodiscard]] static std::int64_t bytes(std::int64_t samples, std::int64_t dimension,
                                          DType row_type, const MarginSoftmaxOptions& options);

  [[nodiscard]] double target_cosine(const MarginStep& step, const Positive& p);
  void begin_forward();
  void forward(const MarginStep& step, const ClassTile& tile);
  /// Returns the statistics of the tiles so far, without targets.
  [[nodiscard]] RowStatistics statistics(std::int64_t sample) const;
  /// Returns the sum over the same classes of the logits, or if `binary`, of sigmoid(logit).
  /// REQUIRES: has_second_sum().
  [[nodiscard]] double second_sum(std::int64_t sample) const {
    return second_sum_[static_cast<std::size_t>(sample)];
  }

  /// Returns this thread's memory for rows of centres.
  [[nodiscard]] CentreRows::Scratch& scratch() { return scratch_; }

  void begin_backward();
  /// Adds the tile's part to d_unit(), or computes the gradients of the tile's centres, or both.
  /// Calls sink(active index, CentreGradient, scratch()) for each centre in turn; the sink may
  /// change the centre. Computes a few gradients at a time, so that they are still in the cache.
  template <typename Sink>
  void backward(const MarginStep& step, const ClassTile& tile, TileGradients wanted,
                const Sink& sink) {
    // prefetched() reads this tile's list. begin_tile() replaces it with the next tile's list.
    const bool fetch_state = wanted.centres && wanted.state && !prefetched(tile);
    begin_tile(step, tile, wanted);
    for (std::int64_t first = 0; wanted.centres && first < tile.size(); first += kGradientRows) {
      const std::int64_t end = std::min(first + kGradientRows, tile.size());
      compute_gradients(step, tile, first, end);
      for (std::int64_t i = first; i < end; ++i) {
        if (fetch_state) prefetch_state_after(step, tile.begin + i);
        sink(tile.begin + i, gradient(i - first, i), scratch_);
      }
    }
  }
  /// [N, D]: gradients of the normalised embeddings.
  [[nodiscard]] const float* d_unit() const { return d_unit_.data(); }
  [[nodiscard]] bool failed() const { return failed_; }  ///< whether oneDNN failed on a product

 private:
  template <typename F>
  void each_array(std::size_t samples, std::size_t dimension, DType row_type,
                  const MarginSoftmaxOptions& options, const F& f);
  void find_angle(const MarginStep& step, const ClassTile& tile, std::size_t k);
  /// Returns the products, or with several centres a class, cosines_: one row per class.
  float* reduce_to_classes(const MarginStep& step, const ClassTile& tile, float* products);
  void add_logits(std::int64_t classes, const float* logits);
  /// Adds the tile's margin_binary_sums() to sum_ and second_sum_; sets max_ to 0.
  void add_binary(const MarginTile& tile, const float* logits);
  /// Returns whether the products of this thread's previous tile have prefetched all memory of
  /// this one. If they had too few steps for the list, the end of the list was not prefetched.
  [[nodiscard]] bool prefetched(const ClassTile& tile) const {
    return !tile.first && !stretches_.empty() && soon_.next == soon_.end;
  }
  static void prefetch_state_after(const MarginStep& step, std::int64_t index);
  void gather(const MarginStep& step, const ClassTile& tile);
  /// Lists the memory of the next tile, to prefetch during `products` products of this one.
  void list_next(const MarginStep& step, const ClassTile& tile, bool state, int products);
  /// Runs everything before the gradients of centres.
  void begin_tile(const MarginStep& step, const ClassTile& tile, TileGradients wanted);
  /// Computes the gradients of the tile's rows [first, end).
  void compute_gradients(const MarginStep& step, const ClassTile& tile, std::int64_t first,
                         std::int64_t end);
  [[nodiscard]] CentreGradient gradient(std::int64_t place, std::int64_t i) const {
    const auto k = static_cast<std::size_t>(i);
    return {gradients_.data() + place * static_cast<std::int64_t>(dimension_), along_[k],
            inverse_norms_[k]};
  }
  void add_to_embeddings(const MarginStep& step, const ClassTile& tile);
  void add_to_centres(const MarginStep& step, const ClassTile& tile, std::int64_t first,
                      std::int64_t end);
  [[nodiscard]] double target_factor(const MarginStep& step, const ClassTile& tile,
                                     std::size_t k) const;
  /// Returns an active row of the tile in float32, even if the products read bfloat16.
  const float* float_row(const MarginStep& step, const ClassTile& tile, std::int64_t row);
  [[nodiscard]] std::int64_t target_row(const MarginStep& step, const ClassTile& tile,
                                        std::size_t k) const {
    return step.target_rows[tile.first_positive + static_cast<std::int64_t>(k)];
  }
  [[nodiscard]] MarginTile describe(const MarginStep& step, const ClassTile& tile);
  [[nodiscard]] TeacherLogits::Tile distilled(const MarginStep& step, const ClassTile& tile,
                                              const float* products) const {
    return {.classes = step.batch.classes.subspan(static_cast<std::size_t>(tile.begin),
                                                  static_cast<std::size_t>(tile.size())),
            .products = products,
            .inverse_norms = inverse_norms_.data()};
  }

  const VectorKernels& kernels_;
  const int part_;
  std::size_t dimension_ = 0;
  CentreRows::Scratch scratch_;
  AlignedVector<float> products_;                   // [tile, N]
  AlignedVector<float> gradients_;                  // [kGradientRows, D]
  AlignedVector<float> inverse_norms_, along_;      // [tile]
  AlignedVector<float> cosines_, winners_;          // [classes of a tile, N], with sub-centres
  std::vector<std::int64_t> left_out_;              // indices of the targets' products
  std::vector<Stretch> stretches_;                  // memory of the next tile
  PrefetchList soon_;                               // stretches that are not yet prefetched
  const void* rows_ = nullptr;                      // [tile, stride]: in the table or in scratch_
  AlignedVector<float> max_, tile_max_, tile_sum_;  // [N]
  AlignedVector<double> sum_;                       // [N]
  AlignedVector<double> second_sum_;                // [N], or empty
  AlignedVector<float> d_unit_;                     // [N, D]
  bool failed_ = false;
};

}  // namespace pfc
