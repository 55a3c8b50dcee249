// Host memory for tensors: aligned for vectors, in huge pages where it is big, zeroed.
#pragma once

#include <cstddef>

#include "kernels/ops.h"

namespace pfc {

/// Owns zeroed memory: 64-byte aligned; from 4 MiB on in its own mapping, 2 MiB aligned, with huge
/// pages asked for (a step touches gigabytes: small pages cost TLB misses). Throws DeviceError that
/// says how much was asked for.
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
  void* mapping_ = nullptr;  // null: data_ came from aligned_alloc
  std::size_t mapped_bytes_ = 0;
};

/// AlignedMemory as ops.h's Buffer.
class CpuBuffer : public Buffer {
 public:
  explicit CpuBuffer(std::size_t bytes) : memory_(bytes) {}
  std::byte* data() override { return memory_.data(); }
  [[nodiscard]] std::size_t bytes() const override { return memory_.bytes(); }

 private:
  AlignedMemory memory_;
};

/// The one scratch area that all plans of an Ops share: the compute stream orders them, so no two
/// use it at once. Grows when plans are made, never in a step.
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

/// Rounds a size up, so that what lies behind it in a scratch area is aligned for vectors.
constexpr std::size_t align_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace pfc
