// Memory of a GPU, and host memory that a GPU's copies read and write while the host goes on.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/ops.h"

namespace pfc {

/// Memory of the current device, not zeroed. Throws DeviceError, with the bytes that were requested
/// and that were free, when there is not enough.
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

/// Page-locked host memory: copies between it and a GPU run while the host goes on.
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

/// The scratch area that all plans of a GPU share. They execute one after the other on the compute
/// stream, so only one uses it at a time. It never shrinks. REQUIRES: users call data() for each
/// use, as reserve() may move the area.
class CudaScratch {
 public:
  void reserve(std::size_t bytes);
  [[nodiscard]] std::byte* data() const { return buffer_ ? buffer_->data() : nullptr; }
  [[nodiscard]] std::size_t bytes() const { return buffer_ ? buffer_->bytes() : 0; }

 private:
  std::unique_ptr<CudaBuffer> buffer_;
};

/// Memory whose size varies a little from step to step. It never shrinks, and loses its contents
/// when it grows. It comes from Ops::allocate(), and work on the compute stream uses it. REQUIRES:
/// users call data() for each use, as reserve() may move the memory.
class GrowingBuffer {
 public:
  explicit GrowingBuffer(Ops& ops) : ops_(ops) {}

  void reserve(std::size_t bytes) {
    if (bytes <= this->bytes()) return;
    buffer_.reset();  // freed first: the old and the new memory together might not fit
    buffer_ = ops_.allocate(bytes);
  }
  [[nodiscard]] std::byte* data() const { return buffer_ ? buffer_->data() : nullptr; }
  [[nodiscard]] std::size_t bytes() const { return buffer_ ? buffer_->bytes() : 0; }

 private:
  Ops& ops_;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace pfc
