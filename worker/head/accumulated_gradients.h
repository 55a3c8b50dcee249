// Gradients of class centres summed over the micro-batches of one optimizer step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/ops.h"

namespace pfc {

/// Needed only if gradient_acc is above 1: then centres cannot be updated during the backward
/// pass. Has one row for every class that was active in any micro-batch of the step. At sample
/// rate 1 the rows take as much memory as the centres, at 0.1 about a tenth of that. Used by the
/// training thread.
class AccumulatedGradients {
 public:
  /// ops is borrowed.
  AccumulatedGradients(Ops& ops, std::int64_t dimension) : ops_(ops), dimension_(dimension) {}

  /// Returns the bytes of device memory for a step with `rows` active classes.
  [[nodiscard]] static std::size_t bytes(std::int64_t rows, std::int64_t dimension) {
    return static_cast<std::size_t>(capacity_for(rows) * dimension) * sizeof(float);
  }

  void clear();  ///< call before the first micro-batch of a step

  /// Adds a row of zeros for each of the classes (sorted) that has no row in this step. Returns
  /// the row of each class in gradients(), valid until the next call.
  std::span<const std::int64_t> slots_of(std::span<const std::int64_t> classes);

  [[nodiscard]] Tensor gradients() const;  ///< [rows, D] float32
  /// All classes of the step, sorted, and their rows.
  [[nodiscard]] std::span<const std::int64_t> classes() const { return classes_; }
  [[nodiscard]] std::span<const std::int64_t> slots() const { return slots_; }

 private:
  // The number of sampled classes varies between steps, so this leaves room for a few more rows.
  static std::int64_t capacity_for(std::int64_t rows) { return rows + rows / 16; }
  void reserve_rows(std::int64_t used, std::int64_t rows);

  Ops& ops_;
  const std::int64_t dimension_;
  std::vector<std::int64_t> classes_, slots_;                // sorted by class
  std::vector<std::int64_t> merged_classes_, merged_slots_;  // buffers reused by the next merge
  std::vector<std::int64_t> asked_;                          // result of slots_of()
  std::unique_ptr<Buffer> buffer_;
  std::int64_t capacity_ = 0;  // rows
};

}  // namespace pfc
