// Copies numbers between host vectors and device tensors.
#pragma once

#include <span>
#include <vector>

#include "kernels/owned_tensor.h"

namespace pfc {

/// Returns a tensor with these values, rounded to nearest if `type` is not float32.
inline OwnedTensor to_device(Ops& ops, const Shape& shape, std::span<const float> values,
                             DType type = DType::kFloat32) {
  check(static_cast<std::int64_t>(values.size()) == shape.elements(), "to_device: size");
  OwnedTensor tensor(ops, shape, type);
  if (type == DType::kFloat32) {
    ops.copy_to_device(tensor, values.data());
  } else {
    ops.convert(to_device(ops, shape, values), tensor);
  }
  return tensor;
}

/// Returns the values of a tensor of float32 or the device's activation type. Blocks until they
/// are copied.
inline std::vector<float> to_host(Ops& ops, const Tensor& tensor) {
  if (tensor.dtype != DType::kFloat32) {
    const OwnedTensor floats(ops, tensor.shape);
    ops.convert(tensor, floats);
    return to_host(ops, floats);
  }
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  ops.copy_to_host(values.data(), tensor);
  return values;
}

}  // namespace pfc
