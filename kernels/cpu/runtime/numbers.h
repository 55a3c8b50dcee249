// Accesses a tensor's numbers in the types that CPU kernels use.
#pragma once

#include "kernels/math/bfloat16.h"
#include "kernels/tensor.h"

namespace pfc {

/// T: float or BFloat16.
template <typename T>
constexpr DType dtype_of() {
  static_assert(sizeof(T) == size_of(DType::kFloat32) || sizeof(T) == size_of(DType::kBFloat16));
  return sizeof(T) == size_of(DType::kFloat32) ? DType::kFloat32 : DType::kBFloat16;
}

/// Throws std::logic_error for a tensor of another type. Returns a null pointer for a null tensor.
template <typename T>
T* numbers(const Tensor& t) {
  check(t.data == nullptr || t.dtype == dtype_of<T>(), "numbers: a tensor of another type");
  return static_cast<T*>(t.data);
}

/// Calls f.template operator()<T>() with the type of the tensor's numbers.
template <typename F>
void with_numbers_of(const Tensor& t, const F& f) {
  if (t.dtype == DType::kFloat32) {
    f.template operator()<float>();
  } else {
    f.template operator()<BFloat16>();
  }
}

}  // namespace pfc
