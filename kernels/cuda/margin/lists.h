// Lists of numbers that the host writes for kernels of one stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/cuda/runtime/growing_buffer.h"

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

}  // namespace pfc
