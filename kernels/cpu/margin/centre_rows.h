// Reads and updates the class centres of one worker, row by row, for all precisions of the table.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/runtime/aligned_vector.h"
#include "kernels/cpu/vector/vector_kernels.h"
#include "kernels/margin/margin_softmax.h"

namespace pfc {

/// An update in the form that kernels/math/optimizer.h expects.
struct UpdateRule {
  UpdateRule(const MarginSoftmaxOptions& o, const MarginSoftmax::Update& update,
             const UpdateHistory& history)
      : optimizer(o.optimizer),
        number(update.number),
        updated(history.count() + 1),
        past(past_update(o, update)),
        sgd(sgd_options(o, update)),
        adamw(adamw_options(update.lr, o.weight_decay, update.number)) {}
  OptimizerKind optimizer;
  std::int64_t number;
  std::int32_t updated;  ///< value of CentreTable::updated of a row after this update
  PastUpdate past;
  SgdOptions sgd;
  AdamWOptions adamw;
};

/// An active row of a step. A row is one centre, so a class has as many rows as sub-centres.
struct ActiveRow {
  std::int64_t c;         ///< global number of the centre: class * sub_centres + sub-centre
  const CatchUp* missed;  ///< updates that the row has missed; nullptr if none
};

/// The rows of some of a step's classes, sorted. index and table come from a CatchUpPlan.
struct ActiveRows {
  std::span<const std::int64_t> classes;
  std::span<const std::uint32_t> index;  ///< by class: index in `table`; 0: no update was missed
  std::span<const CatchUp> table;
  std::int64_t sub_centres = 1;

  [[nodiscard]] std::size_t size() const {
    return classes.size() * static_cast<std::size_t>(sub_centres);
  }
  [[nodiscard]] ActiveRow operator[](std::size_t i) const {
    const auto k = static_cast<std::size_t>(sub_centres);
    const std::uint32_t missed = index[i / k];
    return {.c = classes[i / k] * sub_centres + static_cast<std::int64_t>(i % k),
            .missed = missed == 0 ? nullptr : &table[missed]};
  }
  /// Returns rows [begin, begin + size). REQUIRES: both are multiples of sub_centres.
  [[nodiscard]] ActiveRows part(std::int64_t begin, std::int64_t size) const {
    const auto first = static_cast<std::size_t>(begin / sub_centres);
    const auto count = static_cast<std::size_t>(size / sub_centres);
    return {classes.subspan(first, count), index.subspan(first, count), table, sub_centres};
  }
};

/// Gradient of a normalised centre. Its component along the centre does not change the centre's
/// direction, and is subtracted when the gradient is applied.
struct CentreGradient {
  const float* gradient;  ///< [D], including the component along the centre
  float along;            ///< length of the component along the centre
  float inverse_norm;     ///< 1 / length of the centre, after missed updates
};

/// Memory layout of a tile of centres: rows of `type`, whose starts are `stride` numbers apart,
/// with zeros after the dimension. If there are fewer rows than `padded`, rows of zeros follow.
struct TileLayout {
  DType type;
  std::int64_t stride;
  std::int64_t padded;
};

/// Row numbers are global. Threads may use one CentreRows for rows of different classes. Borrows
/// the table, whose tensors have a row for each centre.
class CentreRows {
 public:
  CentreRows(const CentreTable& table, const MarginSoftmaxOptions& options,
             const VectorKernels& kernels);

  [[nodiscard]] std::int64_t dimension() const { return dimension_; }

  /// Memory of one thread.
  struct Scratch {
    AlignedVector<float> floats;     // [tile, stride]
    AlignedVector<BFloat16> halves;  // [tile, stride]
    AlignedVector<float> row;        // [D]
    // [D] each: new numbers of a row of one-byte numbers, before they are rounded.
    AlignedVector<float> weight, momentum;
  };
  /// Allocates the part of `scratch` that single rows need.
  static void allocate_rows(Scratch& scratch, std::size_t dimension) {
    each_row(scratch, dimension, [](auto& array, std::size_t n) { array.resize(n); });
  }
  /// Calls f(array, elements) for each array of `scratch`, sized for tiles of `padded` rows.
  template <typename F>
  static void each_array(Scratch& scratch, const TileLayout& layout, std::size_t dimension,
                         const F& f) {
    const auto numbers = static_cast<std::size_t>(layout.padded * layout.stride);
    f(scratch.floats, layout.type == DType::kFloat32 ? numbers : 0);
    f(scratch.halves, layout.type == DType::kFloat32 ? 0 : numbers);
    each_row(scratch, dimension, f);
  }

  /// Returns the rows as a matrix of this layout: the table itself if it has that layout and all
  /// rows are up to date, otherwise a copy in scratch. Only bfloat16 copies are padded with rows
  /// of zeros. Fills inverse_norms [rows]. prefetched: the caller has already prefetched the rows.
  const void* gather(const ActiveRows& rows, const TileLayout& layout, bool prefetched,
                     Scratch& scratch, float* inverse_norms) const;
  /// Adds to `stretches` the memory of a row that gather() will read, and with `state` also the
  /// memory that move() will read.
  void add_stretches(const ActiveRow& row, bool state, std::vector<Stretch>& stretches) const;
  /// Returns one row as float32: the table's own memory, or a copy in scratch.row.
  const float* row(const ActiveRow& row, Scratch& scratch) const;
  // The functions below REQUIRE a call of allocate_rows(scratch).

  /// Prefetches what move() will read, because the hardware cannot predict these accesses.
  void prefetch_state(const ActiveRow& row) const;
  /// Applies the missed updates and then the update of `rule` to the row in the table.
  void move(const ActiveRow& row, const CentreGradient& g, const UpdateRule& rule,
            Scratch& scratch) const;
  /// Computes sum [D] += the gradient without its component along the centre.
  void add_gradient(const ActiveRow& row, const CentreGradient& g, float* sum,
                    Scratch& scratch) const;
  /// Applies the missed updates to the row in the table, which has then seen `count` updates.
  void settle(const ActiveRow& row, std::int32_t count, Scratch& scratch) const;
  void compute_inverse_norm(std::int64_t c) const;

 private:
  template <typename F>
  static void each_row(Scratch& scratch, std::size_t dimension, const F& f) {
    for (auto* row : {&scratch.row, &scratch.weight, &scratch.momentum}) f(*row, dimension);
  }
  /// Copies a row after its missed updates to `floats` or, rounded to nearest, to `halves`; the
  /// other is nullptr. Returns its inverse norm.
  float copy_row(const ActiveRow& row, float* floats, BFloat16* halves) const;
  void copy_numbers(const void* row, float* floats, BFloat16* halves) const;
  [[nodiscard]] float inverse_of(double squares) const;
  [[nodiscard]] std::byte* address(const Tensor& t, std::int64_t c) const;
  [[nodiscard]] std::byte* address_or_null(const Tensor& t, std::int64_t c) const {
    return t ? address(t, c) : nullptr;
  }
  [[nodiscard]] float* scale_of(const ScaledRows& t, std::int64_t c) const;
  [[nodiscard]] CentreRow describe(const ActiveRow& row, const CentreGradient& g,
                                   Scratch& scratch) const;
  void prefetch_row(const ActiveRow& row) const;

  const CentreTable table_;
  const VectorKernels& kernels_;
  const std::uint64_t seed_;  // for stochastic rounding
  const bool plain_;          // rows are not normalised
  const std::int64_t sub_centres_, first_, dimension_;
  float* const inverse_norm_;
  std::int32_t* const updated_;
  const CentrePrecision precision_;
};

}  // namespace pfc
