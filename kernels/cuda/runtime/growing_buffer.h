// Memory whose size differs a little from step to step.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/ops.h"

namespace pfc {

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
