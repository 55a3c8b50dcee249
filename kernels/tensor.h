// A view of numbers in device memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "common/error.h"

namespace pfc {

/// kFloat8: E4M3 (kernels/math/one_byte.h).
enum class DType : std::uint8_t { kFloat32, kBFloat16, kFloat16, kInt64, kUInt8, kInt8, kFloat8 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::kFloat32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kInt64:
      return 8;
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kFloat8:
      return 1;
  }
  return 0;
}

/// Returns the name used in configuration files: "fp32", "bf16", "fp16".
constexpr const char* name_of(DType type) {
  switch (type) {
    case DType::kFloat32:
      return "fp32";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat16:
      return "fp16";
    case DType::kInt64:
      return "int64";
    case DType::kUInt8:
      return "uint8";
    case DType::kInt8:
      return "int8";
    case DType::kFloat8:
      return "fp8";
  }
  return "";
}

/// A shape of up to four dimensions, row-major. Activations are [N, H, W, C].
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    check(dims.size() <= dims_.size(), "Shape: more than four dimensions");
    int i = 0;
    for (const std::int64_t d : dims) dims_[static_cast<std::size_t>(i++)] = d;
  }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::int64_t elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[static_cast<std::size_t>(i)];
    return n;
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, 4> dims_{};
  int rank_ = 0;
};

/// A view of memory owned elsewhere, for example by a Buffer; cheap to copy. A null tensor (data
/// == nullptr) represents a missing optional argument.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  Shape shape;

  Tensor() = default;
  Tensor(float* p, Shape s) : data(p), dtype(DType::kFloat32), shape(s) {}
  Tensor(void* p, DType t, Shape s) : data(p), dtype(t), shape(s) {}

  [[nodiscard]] explicit operator bool() const { return data != nullptr; }
  [[nodiscard]] std::int64_t elements() const { return shape.elements(); }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(elements()) * size_of(dtype);
  }
  [[nodiscard]] float* f32() const {
    check(dtype == DType::kFloat32, "Tensor: float32 expected");
    return static_cast<float*>(data);
  }
};

}  // namespace pfc
