// Memory of a GPU, and host memory that a GPU's copies read and write while the host goes on.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/ops.h"

namespace pfc {

/// On the current device; not yet zeroed. Throws DeviceError that says how much was asked for and
/// how much was free.
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

/// One area that plans share, which the compute stream's order makes right. Grows only; its address
/// is asked for at each use.
class CudaScratch {
 public:
  void reserve(std::size_t bytes);
  [[nodiscard]] std::byte* data() const { return buffer_ ? buffer_->data() : nullptr; }
  [[nodiscard]] std::size_t bytes() const { return buffer_ ? buffer_->bytes() : 0; }

 private:
  std::unique_ptr<CudaBuffer> buffer_;
};

/// Grows only, and loses its contents when it does; its address is asked for at each use. From what
/// the job has reserved, for the compute stream.
class GrowingBuffer {
 public:
  explicit GrowingBuffer(Ops& ops) : ops_(ops) {}

  void reserve(std::size_t bytes) {
    if (bytes <= this->bytes()) return;
    buffer_.reset();  // first: both at once might not fit
    buffer_ = ops_.allocate(bytes);
  }
  [[nodiscard]] std::byte* data() const { return buffer_ ? buffer_->data() : nullptr; }
  [[nodiscard]] std::size_t bytes() const { return buffer_ ? buffer_->bytes() : 0; }

 private:
  Ops& ops_;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace pfc
