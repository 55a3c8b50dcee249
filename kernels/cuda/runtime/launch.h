// The one way in which kernels are launched.
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
  std::size_t shared_bytes = 0;  ///< dynamic; above 48 KiB the kernel must have been allowed it
};

/// Enqueues. `name` is for the error message.
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

/// How many blocks of a kernel a multiprocessor holds at once; at least one.
template <typename... Parameters>
int resident_blocks(void (*kernel)(Parameters...), unsigned threads) {
  int blocks = 0;
  cuda_check(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, static_cast<int>(threads), 0),
      "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return std::max(blocks, 1);
}

constexpr unsigned kThreads = 256;  ///< of a block, where a kernel has no reason for another number

/// For a loop over `items` with a stride of the whole grid: a few blocks a multiprocessor, so that
/// the last round is short; at least one block.
inline LaunchShape grid_for(std::int64_t items, int multiprocessors) {
  constexpr int kBlocksEach = 8;  // 2048 threads: as many as one holds
  const std::int64_t needed = (items + kThreads - 1) / kThreads;
  const std::int64_t most = std::int64_t{multiprocessors} * kBlocksEach;
  return {.blocks = dim3(static_cast<unsigned>(std::clamp<std::int64_t>(needed, 1, most))),
          .threads = dim3(kThreads)};
}

}  // namespace pfc
