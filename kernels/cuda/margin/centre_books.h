// What the host knows of the rows of class centres, and the lists of it that kernels read.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/margin/centre_rows.h"
#include "kernels/cuda/margin/lists.h"
#include "kernels/margin/margin_softmax.h"

namespace pfc {

/// Which updates each row has seen, and how those of a call catch up. One host thread.
class CentreBooks {
 public:
  /// The table's memory is borrowed.
  CentreBooks(const CentreTable& table, const MarginSoftmaxOptions& options)
      : table_(table), options_(options) {}

  /// After table and history were written from outside.
  void opened() { all_seen_ = -1; }

  /// Before the lists of a call: how these rows (sorted) catch up.
  void plan(std::span<const std::int64_t> classes);
  /// Of the lists of that call, at most.
  [[nodiscard]] std::int64_t list_bytes(std::int64_t rows) const;
  /// Writes them; what need not be said is not: rows that lie one behind the other, and that none
  /// has missed an update.
  RowList add_lists(CudaLists& lists, std::span<const std::int64_t> classes) const;

  /// After these rows were moved: the update comes into the history. Not AdamW's.
  void moved(std::span<const std::int64_t> classes, const MarginSoftmax::Update& update);
  /// After these rows were brought up to date. Returns after how many updates they are.
  std::int32_t settled(std::span<const std::int64_t> classes);

 private:
  [[nodiscard]] bool kept() const {
    return options_.optimizer == OptimizerKind::kSgd && table_.history != nullptr;
  }
  [[nodiscard]] bool none_has_missed() const {
    return !kept() || all_seen_ == table_.history->count();
  }

  const CentreTable table_;
  const MarginSoftmaxOptions options_;
  CatchUpPlan plan_;
  std::int32_t all_seen_ = -1;  // every row has seen this many updates; -1: unknown
};

}  // namespace pfc
