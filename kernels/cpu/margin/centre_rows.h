// The class centres of one worker as rows of numbers, whatever they are kept as.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/vector/vector_kernels.h"
#include "kernels/margin/margin_softmax.h"

namespace pfc {

/// An Update in the terms of kernels/math/optimizer.h.
struct UpdateRule {
  UpdateRule(const MarginSoftmaxOptions& o, const MarginSoftmax::Update& update,
             const UpdateHistory& history)
      : optimizer(o.optimizer),
        number(update.number),
        updated(o.optimizer == OptimizerKind::kSgd ? history.count() + 1 : 0),
        sgd(sgd_options(o, update)),
        adamw(adamw_options(update.lr, o.weight_decay, update.number)) {}
  OptimizerKind optimizer;
  std::int64_t number;
  std::int32_t updated;  ///< what a row has seen after it
  SgdOptions sgd;
  AdamWOptions adamw;
};

/// A row as a step needs it: the centre after the updates that it has missed; null: none.
struct ActiveRow {
  std::int64_t c;  ///< global
  const CatchUp* missed;
};

/// Some of a step's active rows, sorted by class; see CatchUpPlan.
struct ActiveRows {
  std::span<const std::int64_t> classes;
  std::span<const std::uint32_t> index;
  std::span<const CatchUp> table;

  [[nodiscard]] std::size_t size() const { return classes.size(); }
  [[nodiscard]] ActiveRow operator[](std::size_t i) const {
    return {.c = classes[i], .missed = index[i] == 0 ? nullptr : &table[index[i]]};
  }
  [[nodiscard]] ActiveRows part(std::int64_t begin, std::int64_t size) const {
    const auto first = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(size);
    return {classes.subspan(first, count), index.subspan(first, count), table};
  }
};

/// The gradient of a centre's direction: gradient [D] without its part `along` the centre, of which
/// inverse_norm is that of the row as the step needs it.
struct CentreGradient {
  const float* gradient;
  float along;
  float inverse_norm;
};

/// Thread-safe for different rows; classes are global. The table is borrowed.
class CentreRows {
 public:
  /// seed: of the rounding.
  CentreRows(const CentreTable& table, std::uint64_t seed, const VectorKernels& kernels);

  [[nodiscard]] std::int64_t dimension() const { return dimension_; }

  /// A thread's own memory.
  struct Scratch {
    std::vector<float> floats;     // [tile, D]
    std::vector<BFloat16> halves;  // [tile, D]
    std::vector<float> row;        // [D]
  };
  /// Calls f(array, elements) for each array of `scratch`, with what tiles of `classes` rows of
  /// `type` need.
  template <typename F>
  static void each_array(Scratch& scratch, DType type, std::size_t classes, std::size_t dimension,
                         const F& f) {
    f(scratch.floats, type == DType::kFloat32 ? classes * dimension : 0);
    f(scratch.halves, type == DType::kFloat32 ? 0 : classes * dimension);
    f(scratch.row, dimension);
  }

  /// The rows as `type`, one behind the other; in the table itself where they lie so, else in
  /// scratch. With `padded`, zeros follow up to that many rows. Sets inverse_norms [rows].
  const void* gather(const ActiveRows& rows, DType type, std::int64_t padded, Scratch& scratch,
                     float* inverse_norms) const;
  /// One row as float32: the table's own, or a copy in scratch.row.
  const float* row(const ActiveRow& row, Scratch& scratch) const;

  /// Asks for what move() will read: rows lie anywhere in a table of gigabytes, where no hardware
  /// prefetcher follows.
  void prefetch_state(const ActiveRow& row) const;
  void move(const ActiveRow& row, const CentreGradient& g, const UpdateRule& rule) const;
  /// sum [D] += the gradient across the centre.
  void add_gradient(const ActiveRow& row, const CentreGradient& g, float* sum) const;
  /// The row after `count` updates, in the table.
  void settle(const ActiveRow& row, std::int32_t count) const;
  void compute_inverse_norm(std::int64_t c) const;

 private:
  void copy_row(const std::byte* from, DType type, std::int64_t place, Scratch& scratch) const;
  float catch_up_row(const ActiveRow& row, float* floats, BFloat16* halves) const;
  [[nodiscard]] std::byte* address(const Tensor& t, std::int64_t c) const;
  [[nodiscard]] CentreRow describe(const ActiveRow& row, const CentreGradient& g) const;
  void prefetch_row(const ActiveRow& row) const;

  const CentreTable table_;
  const VectorKernels& kernels_;
  const std::uint64_t seed_;
  const std::int64_t first_, dimension_;
  float* const inverse_norm_;
  std::int32_t* const updated_;
  CentrePrecision precision_ = CentrePrecision::kFp32;
};

}  // namespace pfc
