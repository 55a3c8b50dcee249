// Launches kernels. All launches use launch(), which checks for errors.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/cuda/runtime/cuda_call.h"

namespace pfc {

struct LaunchShape {
  dim3 blocks;
  dim3 threads;
  /// Dynamic shared memory. REQUIRES: cudaFuncSetAttribute() was called if above 48 KiB.
  std::size_t shared_bytes = 0;
};

/// Enqueues the kernel and returns. Throws DeviceError that mentions `name` on failure.
template <typename... Parameters, typename... Arguments>
void launch(const char* name, const LaunchShape& shape, cudaStream_t stream,
            void (*kernel)(Parameters...), Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  cuda_check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), name);
}

/// Returns how many blocks of a kernel a multiprocessor can run at once; at least 1.
template <typename... Parameters>
int resident_blocks(void (*kernel)(Parameters...), unsigned threads) {
  int blocks = 0;
  cuda_check(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, static_cast<int>(threads), 0),
      "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return std::max(blocks, 1);
}

constexpr unsigned kThreads = 256;  ///< threads per block, unless a kernel needs another number

/// Returns the launch of a kernel that loops over `items` with the stride of the whole grid: at
/// most eight blocks per multiprocessor, at least one block.
inline LaunchShape grid_for(std::int64_t items, int multiprocessors) {
  constexpr int kBlocksEach = 8;  // 2048 threads: the maximum of a multiprocessor
  const std::int64_t needed = (items + kThreads - 1) / kThreads;
  const std::int64_t most = std::int64_t{multiprocessors} * kBlocksEach;
  return {.blocks = dim3(static_cast<unsigned>(std::clamp<std::int64_t>(needed, 1, most))),
          .threads = dim3(kThreads)};
}

}  // namespace pfc
