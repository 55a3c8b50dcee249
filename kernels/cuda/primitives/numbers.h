// Element access: float32, bfloat16 or float16 in memory, float in registers, 16 bytes at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "kernels/tensor.h"

namespace pfc {

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(std::uint8_t x) { return static_cast<float>(x); }

template <typename T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16(x);
}
template <>
__device__ __forceinline__ __half from_float<__half>(float x) {
  return __float2half(x);
}

/// Number of elements that a thread processes at a time: 16 bytes of a 2-byte type, 32 of float32.
constexpr int kPack = 8;

template <typename T>
struct Pack {
  T x[kPack];
};

/// REQUIRES: p is aligned to the size of the pack or to 16 bytes, whichever is smaller.
template <typename T>
__device__ __forceinline__ Pack<T> load_pack(const T* p) {
  Pack<T> pack;
  if constexpr (sizeof(pack) == 8) {
    const uint2 bits = *reinterpret_cast<const uint2*>(p);
    memcpy(&pack, &bits, 8);
  } else {
#pragma unroll
    for (unsigned i = 0; i < sizeof(pack) / 16; ++i) {
      const uint4 bits = reinterpret_cast<const uint4*>(p)[i];
      memcpy(reinterpret_cast<char*>(&pack) + 16 * i, &bits, 16);
    }
  }
  return pack;
}

template <typename T>
__device__ __forceinline__ void store_pack(T* p, const Pack<T>& pack) {
  if constexpr (sizeof(pack) == 8) {
    uint2 bits;
    memcpy(&bits, &pack, 8);
    *reinterpret_cast<uint2*>(p) = bits;
  } else {
#pragma unroll
    for (unsigned i = 0; i < sizeof(pack) / 16; ++i) {
      uint4 bits;
      memcpy(&bits, reinterpret_cast<const char*>(&pack) + 16 * i, 16);
      reinterpret_cast<uint4*>(p)[i] = bits;
    }
  }
}

/// Returns whether packs can be loaded from and stored to this address. Also true for nullptr.
inline bool aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

/// Calls f with a null pointer to the element type of `type`: float, __nv_bfloat16 or __half.
/// Throws std::logic_error for other types.
template <typename F>
void with_element_type(DType type, const F& f) {
  switch (type) {
    case DType::kFloat32:
      return f(static_cast<float*>(nullptr));
    case DType::kBFloat16:
      return f(static_cast<__nv_bfloat16*>(nullptr));
    case DType::kFloat16:
      return f(static_cast<__half*>(nullptr));
    default:
      check(false, "CUDA: a tensor of float32, bfloat16 or float16 expected");
  }
}

}  // namespace pfc
