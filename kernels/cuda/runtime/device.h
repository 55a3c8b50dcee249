// One GPU as the kernels' host side sees it. One worker owns it; everything on it belongs to the
// worker's training thread, but for what waits for events.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/tensor.h"

namespace pfc {

struct CudaDevice {
  /// Makes it the calling thread's current device.
  explicit CudaDevice(const CudaOptions& options);

  const int index;
  const DType activations;
  const bool tf32;
  const bool graphs;
  const cudaDeviceProp properties;
  CudaStream compute;
  CudaScratch scratch;   ///< of the compute stream
  PinnedMemory answers;  ///< what host code waits for: a sum, a verdict; 256 bytes

  /// For error messages: "GPU 0 (NVIDIA H100)".
  [[nodiscard]] std::string name() const;
  [[nodiscard]] LaunchShape grid_for(std::int64_t items) const {
    return pfc::grid_for(items, properties.multiProcessorCount);
  }
  /// Copies from the device into `answers` and waits: the one way in which the host reads results.
  void fetch(const void* from, std::size_t bytes);
};

}  // namespace pfc
