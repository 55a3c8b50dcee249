// Warps: the item that each one processes in a loop, and sums over the threads of a warp or a
// block. Sums are added in a fixed order, so results are bit-identical every time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/runtime/launch.h"

namespace pfc {

constexpr unsigned kWarp = 32;
constexpr unsigned kWarps = kThreads / kWarp;  ///< of a block of kThreads
constexpr unsigned kWholeWarp = 0xffffffffu;

/// Returns the launch of a kernel in which warp i processes item i, for example a row of a matrix:
/// enough blocks of kThreads for `items` warps. The last block may have warps without an item.
inline LaunchShape one_warp_each(std::int64_t items) {
  return {.blocks = dim3(static_cast<unsigned>((items + kWarps - 1) / kWarps)),
          .threads = dim3(kThreads)};
}
/// Returns the calling warp's item. REQUIRES: the kernel was launched with one_warp_each().
__device__ __forceinline__ std::int64_t index_of_warp() {
  return std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
}

/// Returns the sum over the warp, in every lane. REQUIRES: all lanes of the warp call it.
template <typename T>
__device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
  for (unsigned lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    x += __shfl_xor_sync(kWholeWarp, x, lanes);
  }
  return x;
}

/// Returns the maximum over the warp, in every lane. REQUIRES: all lanes of the warp call it.
template <typename T>
__device__ __forceinline__ T warp_max(T x) {
#pragma unroll
  for (unsigned lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    const T other = __shfl_xor_sync(kWholeWarp, x, lanes);
    x = other > x ? other : x;
  }
  return x;
}

/// Returns the sum over a one-dimensional block of `Threads` threads, in every thread. Ends with a
/// barrier, so it can be called again immediately. REQUIRES: all threads of the block call it.
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
