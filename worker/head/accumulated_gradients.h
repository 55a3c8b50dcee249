// Gradients of class centres summed over the micro-batches of one optimizer step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/ops.h"

namespace pfc {

/// Only for gradient_acc > 1, where centres cannot move within the backward pass. Costs D * 4 + 16
/// bytes for every class that was active in any micro-batch of the step: as much as the centres
/// again at sample rate 1, a tenth of it at 0.1.
class AccumulatedGradients {
 public:
  /// ops is borrowed.
  AccumulatedGradients(Ops& ops, std::int64_t dimension) : ops_(ops), dimension_(dimension) {}

  void clear();  ///< before the first micro-batch

  /// Makes room, zeroed, for the classes (sorted) that are new in this step. Returns each one's row
  /// in gradients(), valid until the next call.
  std::span<const std::int64_t> slots_of(std::span<const std::int64_t> classes);

  [[nodiscard]] Tensor gradients() const;  ///< [rows, D] float32
  /// Every class of the step, sorted, and its row.
  [[nodiscard]] std::span<const std::int64_t> classes() const { return classes_; }
  [[nodiscard]] std::span<const std::int64_t> slots() const { return slots_; }

 private:
  void reserve_rows(std::int64_t used, std::int64_t rows);

  Ops& ops_;
  const std::int64_t dimension_;
  std::vector<std::int64_t> classes_, slots_;                // sorted by class
  std::vector<std::int64_t> merged_classes_, merged_slots_;  // memory kept for the next merge
  std::vector<std::int64_t> asked_;                          // what slots_of returned
  std::unique_ptr<Buffer> buffer_;
  std::int64_t capacity_ = 0;  // rows
};

}  // namespace pfc
