// Rows of a matrix as packs of eight floats, whatever they are kept as and wherever they lie.
#pragma once

#include "kernels/cuda/primitives/numbers.h"
#include "kernels/cuda/primitives/reduce.h"
#include "kernels/math/bfloat16.h"

namespace pfc {

constexpr std::int64_t kWarpPacks = std::int64_t{kWarp} * kPack;  ///< elements a warp takes at once

/// Elements [i, i + 8) of a row of d; zeros behind its end. packs: the row lies on a 16-byte
/// boundary and d is a multiple of 8.
template <typename T>
__device__ __forceinline__ Pack<float> load_numbers(const T* row, std::int64_t i, std::int64_t d,
                                                    bool packs) {
  Pack<float> out;
  if (packs) {
    const Pack<T> in = load_pack(row + i);
#pragma unroll
    for (int k = 0; k < kPack; ++k) out.x[k] = to_float(in.x[k]);
  } else {
#pragma unroll
    for (int k = 0; k < kPack; ++k) out.x[k] = i + k < d ? to_float(row[i + k]) : 0.f;
  }
  return out;
}

template <typename T>
__device__ __forceinline__ void store_numbers(T* row, std::int64_t i, std::int64_t d, bool packs,
                                              const Pack<T>& numbers) {
  if (packs) return store_pack(row + i, numbers);
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    if (i + k < d) row[i + k] = numbers.x[k];
  }
}

/// What x is kept as: rounded by 16 random bits where it is a bfloat16.
template <typename T>
__device__ __forceinline__ T kept_number(float x, std::uint32_t random);
template <>
__device__ __forceinline__ float kept_number<float>(float x, std::uint32_t /*random*/) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 kept_number<__nv_bfloat16>(float x, std::uint32_t random) {
  const BFloat16 bits = stochastic_bfloat16(x, random);
  __nv_bfloat16 number;
  memcpy(&number, &bits, sizeof(number));
  return number;
}

/// A warp a row.
inline LaunchShape warp_a_row(std::int64_t rows) {
  constexpr std::int64_t kRowsOfBlock = kThreads / kWarp;
  return {.blocks = dim3(static_cast<unsigned>((rows + kRowsOfBlock - 1) / kRowsOfBlock)),
          .threads = dim3(kThreads)};
}
__device__ __forceinline__ std::int64_t row_of_warp() {
  return std::int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
}

}  // namespace pfc
