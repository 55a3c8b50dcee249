// A matrix whose rows have scales if its numbers have one byte.
#pragma once

#include "kernels/math/one_byte.h"
#include "kernels/tensor.h"

namespace pfc {

/// A view of rows [R, K D], as a class's K centres or their momentum. A number of type kInt8 or
/// kFloat8 is multiplied by its centre's scale (kernels/math/one_byte.h).
struct ScaledRows : Tensor {
  using Tensor::Tensor;
  ScaledRows() = default;
  ScaledRows(const Tensor& numbers, const Tensor& row_scales = {})  // NOLINT(*-explicit-*)
      : Tensor(numbers), scales(row_scales) {}

  Tensor scales;  ///< [R, K] float32; null for numbers of other types
};

constexpr bool is_one_byte(DType type) { return type == DType::kInt8 || type == DType::kFloat8; }
/// REQUIRES: is_one_byte(type).
constexpr OneByteFormat one_byte_format(DType type) {
  return type == DType::kInt8 ? OneByteFormat::kInt8 : OneByteFormat::kFp8;
}

}  // namespace pfc
