// Sums over the threads of a block, in a fixed order: the same bits every time.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/runtime/launch.h"

namespace pfc {

constexpr unsigned kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;

/// Every lane gets the sum.
template <typename T>
__device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
  for (unsigned lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    x += __shfl_xor_sync(kWholeWarp, x, lanes);
  }
  return x;
}

template <typename T>
__device__ __forceinline__ T warp_max(T x) {
#pragma unroll
  for (unsigned lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    const T other = __shfl_xor_sync(kWholeWarp, x, lanes);
    x = other > x ? other : x;
  }
  return x;
}

/// Of a block of `Threads` threads in one dimension; every thread gets the sum. The block meets at
/// barriers before and behind, so it may be called again at once.
template <unsigned Threads, typename T>
__device__ __forceinline__ T block_sum(T x) {
  static_assert(Threads % kWarp == 0 && Threads / kWarp <= kWarp);
  __shared__ T sums[Threads / kWarp];
  x = warp_sum(x);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = x;
  __syncthreads();
  T total = sums[0];
#pragma unroll
  for (unsigned i = 1; i < Threads / kWarp; ++i) total += sums[i];
  __syncthreads();
  return total;
}

}  // namespace pfc
