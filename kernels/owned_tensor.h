// A tensor that owns its memory.
#pragma once

#include <memory>
#include <utility>

#include "kernels/ops.h"

namespace pfc {

/// Owns the device memory of one tensor, zeroed on creation. Converts to a Tensor, a view that is
/// valid as long as the OwnedTensor holds this memory. If default-constructed or moved from, it
/// holds no memory, and its view is null.
class OwnedTensor {
 public:
  OwnedTensor() = default;
  /// Throws DeviceError if the device has too little memory.
  OwnedTensor(Ops& ops, const Shape& shape, DType type = DType::kFloat32)
      : buffer_(ops.allocate(static_cast<std::size_t>(shape.elements()) * size_of(type))),
        view_(buffer_->data(), type, shape) {}
  OwnedTensor(OwnedTensor&& other) noexcept
      : buffer_(std::move(other.buffer_)), view_(std::exchange(other.view_, Tensor())) {}
  OwnedTensor& operator=(OwnedTensor&& other) noexcept {
    buffer_ = std::move(other.buffer_);
    view_ = std::exchange(other.view_, Tensor());
    return *this;
  }

  operator const Tensor&() const { return view_; }  // NOLINT(google-explicit-constructor)
  const Tensor& operator*() const { return view_; }
  const Tensor* operator->() const { return &view_; }
  explicit operator bool() const { return buffer_ != nullptr; }

 private:
  std::unique_ptr<Buffer> buffer_;
  Tensor view_;
};

}  // namespace pfc
