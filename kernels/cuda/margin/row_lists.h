// Lists of numbers that the host writes for kernels of one stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cuda/margin/centre_rows.h"
#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/margin/margin_softmax.h"

namespace pfc {

/// Lists are written into pinned memory and copied in one piece. Two pieces of pinned memory take
/// turns, so that the host writes one while the copy of the other, and the kernels before it, may
/// still have to run. Memory grows only. One host thread.
class CudaLists {
 public:
  /// ops is borrowed; copies are enqueued on its compute stream.
  explicit CudaLists(CudaOps& ops) : stream_(ops.device().compute.get()), on_device_(ops) {}

  template <typename T>
  struct List {
    T* host;
    const T* device;
  };

  /// Before the lists of a step, of `bytes` in all, each rounded up to 16.
  void begin(std::int64_t bytes);
  template <typename T>
  List<T> add(std::int64_t n) {
    const std::int64_t offset = take(n * static_cast<std::int64_t>(sizeof(T)));
    return {reinterpret_cast<T*>(next().memory->as<std::byte>() + offset),
            reinterpret_cast<const T*>(on_device_.data() + offset)};
  }
  /// After they were written: enqueues the copy.
  void send();

  [[nodiscard]] static constexpr std::int64_t rounded(std::int64_t bytes) {
    return (bytes + 15) / 16 * 16;
  }

 private:
  struct Turn {
    std::unique_ptr<PinnedMemory> memory;
    CudaEvent copied;
  };
  std::int64_t take(std::int64_t bytes);
  Turn& next() { return turns_[turn_]; }

  const cudaStream_t stream_;
  GrowingBuffer on_device_;
  Turn turns_[2];
  std::size_t turn_ = 0;
  std::int64_t room_ = 0, used_ = 0;
};

/// Which updates each row has seen, and how those of a call catch up. One host thread.
class RowUpdates {
 public:
  /// The table's memory is borrowed.
  RowUpdates(const CentreTable& table, const MarginSoftmaxOptions& options)
      : table_(table), options_(options) {}

  /// After table and history were written from outside.
  void reset() { all_seen_ = -1; }

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
  [[nodiscard]] bool has_history() const {
    return options_.optimizer == OptimizerKind::kSgd && table_.history != nullptr;
  }
  [[nodiscard]] bool all_up_to_date() const {
    return !has_history() || all_seen_ == table_.history->count();
  }

  const CentreTable table_;
  const MarginSoftmaxOptions options_;
  CatchUpPlan plan_;
  std::int32_t all_seen_ = -1;  // every row has seen this many updates; -1: unknown
};

}  // namespace pfc
