// Host memory for tensors: zeroed, aligned for vectors, and in huge pages if it is large.
#pragma once

#include <cstddef>

#include "kernels/ops.h"

namespace pfc {

/// Owns zeroed memory, aligned to 64 bytes. Memory of 4 MiB and more has its own mapping, aligned
/// to 2 MiB, with huge pages if the system grants them: a step touches gigabytes, and small pages
/// would cause TLB misses. Throws DeviceError with the number of bytes when there is not enough.
class AlignedMemory {
 public:
  AlignedMemory() = default;
  explicit AlignedMemory(std::size_t bytes);
  ~AlignedMemory();
  AlignedMemory(AlignedMemory&& other) noexcept;
  AlignedMemory& operator=(AlignedMemory&& other) noexcept;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  void* mapping_ = nullptr;  // nullptr: data_ is from aligned_alloc
  std::size_t mapped_bytes_ = 0;
};

/// Buffer on a CPU.
class CpuBuffer : public Buffer {
 public:
  explicit CpuBuffer(std::size_t bytes) : memory_(bytes) {}
  std::byte* data() override { return memory_.data(); }
  [[nodiscard]] std::size_t bytes() const override { return memory_.bytes(); }

 private:
  AlignedMemory memory_;
};

/// Scratch memory shared by all plans of an Ops. Plans run one at a time, so only one of them uses
/// it. Grows when plans are made, but never during a step.
class Scratch {
 public:
  void reserve(std::size_t bytes) {
    if (bytes > memory_.bytes()) memory_ = AlignedMemory(bytes);
  }
  [[nodiscard]] std::byte* data() const { return memory_.data(); }
  [[nodiscard]] std::size_t bytes() const { return memory_.bytes(); }

 private:
  AlignedMemory memory_;
};

/// Rounds a size up to 64 bytes, so that the next array in scratch is aligned for vectors.
constexpr std::size_t align_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace pfc
