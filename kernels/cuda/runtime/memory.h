// GPU memory, and page-locked host memory for asynchronous copies.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/ops.h"

namespace pfc {

/// Memory of the current device, not zeroed. If there is not enough, throws DeviceError with the
/// bytes requested and the bytes free.
class CudaBuffer : public Buffer {
 public:
  explicit CudaBuffer(std::size_t bytes);
  CudaBuffer(const CudaBuffer&) = delete;
  ~CudaBuffer() override;
  [[nodiscard]] std::byte* data() override { return data_; }
  [[nodiscard]] std::size_t bytes() const override { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  const std::size_t bytes_;
};

/// Page-locked host memory: copies between it and a GPU run while the host continues.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes);
  PinnedMemory(const PinnedMemory&) = delete;
  ~PinnedMemory();
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  const std::size_t bytes_;
};

/// Scratch memory shared by all plans of a GPU. The plans run one at a time on the compute stream,
/// so only one of them uses it. Never shrinks. REQUIRES: users call data() for each use, because
/// reserve() may move the memory.
class CudaScratch {
 public:
  void reserve(std::size_t bytes);
  [[nodiscard]] std::byte* data() const { return buffer_ ? buffer_->data() : nullptr; }
  [[nodiscard]] std::size_t bytes() const { return buffer_ ? buffer_->bytes() : 0; }

 private:
  std::unique_ptr<CudaBuffer> buffer_;
};

/// Memory whose size varies slightly between steps. Never shrinks, and loses its contents when it
/// grows. Allocated with Ops::allocate(), and used by work on the compute stream. REQUIRES: users
/// call data() for each use, because reserve() may move the memory.
class GrowingBuffer {
 public:
  explicit GrowingBuffer(Ops& ops) : ops_(ops) {}

  void reserve(std::size_t bytes) {
    if (bytes <= this->bytes()) return;
    buffer_.reset();  // freed first, because old and new memory together might not fit
    buffer_ = ops_.allocate(bytes);
  }
  [[nodiscard]] std::byte* data() const { return buffer_ ? buffer_->data() : nullptr; }
  [[nodiscard]] std::size_t bytes() const { return buffer_ ? buffer_->bytes() : 0; }

 private:
  Ops& ops_;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace pfc
