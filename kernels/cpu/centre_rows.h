// The class centres of one worker as rows of numbers, whatever they are kept as.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/vector/vector_kernels.h"
#include "kernels/margin_softmax.h"

namespace pfc {

/// An Update in the terms of kernels/math/optimizer.h.
struct UpdateRule {
  UpdateRule(const MarginSoftmaxOptions& o, const MarginSoftmax::Update& update)
      : optimizer(o.optimizer),
        number(update.number),
        sgd{.lr = static_cast<float>(update.lr),
            .momentum = static_cast<float>(o.momentum),
            .weight_decay = static_cast<float>(o.weight_decay)},
        adamw(adamw_options(update.lr, o.weight_decay, update.number)) {}
  OptimizerKind optimizer;
  std::int64_t number;
  SgdOptions sgd;
  AdamWOptions adamw;
};

/// The gradient of a centre's direction: gradient [D] without its part `along` the centre.
struct CentreGradient {
  const float* gradient;
  float along;
};

/// Thread-safe for different rows; classes are global. The table is borrowed.
class CentreRows {
 public:
  /// seed: of the rounding.
  CentreRows(const CentreTable& table, std::uint64_t seed, const VectorKernels& kernels);

  [[nodiscard]] std::int64_t dimension() const { return dimension_; }
  [[nodiscard]] float inverse_norm(std::int64_t c) const { return inverse_norm_[c - first_]; }

  /// A thread's own memory.
  struct Scratch {
    std::vector<float> floats;     // [tile, D]
    std::vector<BFloat16> halves;  // [tile, D]
    std::vector<float> row;        // [D]
  };
  /// Everything that calls with this scratch will need, for tiles of `classes` rows of `type`.
  void allocate(Scratch& scratch, DType type, std::int64_t classes) const;

  /// Rows of the sorted `classes` as `type`, one behind the other; in the table itself where they
  /// lie so, else in scratch. With `padded`, zeros follow up to that many rows.
  const void* gather(std::span<const std::int64_t> classes, DType type, std::int64_t padded,
                     Scratch& scratch) const;
  /// One row as float32: the table's own, or a copy in scratch.row.
  const float* row(std::int64_t c, Scratch& scratch) const;

  /// Asks for what move() will read and gather() did not: rows lie anywhere in a table of
  /// gigabytes, where no hardware prefetcher follows.
  void prefetch_state(std::int64_t c) const;
  void move(std::int64_t c, const CentreGradient& g, const UpdateRule& rule) const;
  /// sum [D] += the gradient across the centre.
  void add_gradient(std::int64_t c, const CentreGradient& g, float* sum) const;
  void compute_inverse_norm(std::int64_t c) const;

 private:
  void copy_row(const std::byte* from, DType type, std::int64_t place, Scratch& scratch) const;
  [[nodiscard]] std::byte* address(const Tensor& t, std::int64_t c) const;
  [[nodiscard]] CentreRow describe(std::int64_t c, const CentreGradient& g) const;
  void set_inverse_norm(std::int64_t c, double squares) const;

  const CentreTable table_;
  const VectorKernels& kernels_;
  const std::uint64_t seed_;
  const std::int64_t first_, dimension_;
  float* const inverse_norm_;
  CentrePrecision precision_ = CentrePrecision::kFp32;
};

}  // namespace pfc
