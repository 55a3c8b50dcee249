// CudaLists sends lists of numbers from the host to kernels. RowUpdates uses it to send the rows of
// class centres that a kernel processes, and the updates that each of these rows has missed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cuda/margin/centre_rows.h"
#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/margin/margin_softmax.h"

namespace pfc {

/// The host writes the lists of a step into page-locked memory, and a single copy sends them to
/// the GPU. Two page-locked buffers are used in turn, so the host can write the next lists while
/// the copy of the previous ones is still pending. Memory never shrinks. Used by one host thread.
class CudaLists {
 public:
  /// Borrows ops; copies are enqueued on its compute stream.
  explicit CudaLists(CudaOps& ops) : stream_(ops.device().compute.get()), on_device_(ops) {}

  template <typename T>
  struct List {
    T* host;
    const T* device;
  };

  /// Begins the lists of a step. bytes: upper bound on the sum of rounded() over all lists.
  void begin(std::int64_t bytes);
  /// Returns a list of n elements, to be filled before send(). REQUIRES: begin() was called.
  template <typename T>
  List<T> add(std::int64_t n) {
    const std::int64_t offset = take(n * static_cast<std::int64_t>(sizeof(T)));
    return {reinterpret_cast<T*>(next().memory->as<std::byte>() + offset),
            reinterpret_cast<const T*>(on_device_.data() + offset)};
  }
  /// Enqueues the copy of all lists to the device.
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

/// Records which updates each class of the table has seen, and makes the lists from which kernels
/// apply the missed ones to its rows. Used by one host thread.
class RowUpdates {
 public:
  /// Borrows the table's memory. The table has a row for each centre.
  RowUpdates(const CentreTable& table, const MarginSoftmaxOptions& options)
      : table_(table), options_(options) {}

  /// Must be called after other code has written table or history.
  void reset() { all_seen_ = -1; }

  /// Finds the updates that the rows of these classes (sorted) have missed.
  void plan(std::span<const std::int64_t> classes);
  /// Returns an upper bound on the lists' bytes for `classes` classes. REQUIRES: plan() was called.
  [[nodiscard]] std::int64_t list_bytes(std::int64_t classes) const;
  /// Adds the lists of these classes' rows. Omits the row numbers if they are contiguous, and the
  /// missed updates if there are none. REQUIRES: plan() was called with the same classes.
  RowList add_lists(CudaLists& lists, std::span<const std::int64_t> classes) const;

  /// Records that an update was applied to these rows, and adds it to the history.
  void moved(std::span<const std::int64_t> classes, const MarginSoftmax::Update& update);
  /// Records that these rows have seen all updates. Returns how many updates the history has.
  std::int32_t settled(std::span<const std::int64_t> classes);

 private:
  [[nodiscard]] bool all_up_to_date() const { return all_seen_ == table_.history->count(); }

  const CentreTable table_;
  const MarginSoftmaxOptions options_;
  CatchUpPlan plan_;
  std::int32_t all_seen_ = -1;  // every row has seen at least this many updates; -1: unknown
};

}  // namespace pfc
