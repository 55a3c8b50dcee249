// Host-side resources of one GPU, which one worker uses.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "common/machine/gpu/gpus.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/tensor.h"

namespace pfc {

/// Returns a GPU's sizes as CUDA's runtime reports them. Throws DeviceError.
GpuSizes gpu_sizes(const cudaDeviceProp& properties, int index);

/// Used only by the worker's training thread; other threads may wait for its events.
struct CudaDevice {
  /// Makes the GPU the calling thread's current device.
  explicit CudaDevice(const CudaOptions& options);

  const int index;
  DType activations;
  const bool tf32;
  const bool graphs;
  const cudaDeviceProp properties;
  const GpuSizes sizes;
  CudaStream compute;
  CudaScratch scratch;   ///< shared by all work on the compute stream
  PinnedMemory answers;  ///< 256 bytes for results that fetch() copies to the host

  /// Returns the name for error messages: "GPU 0 (NVIDIA H100)".
  [[nodiscard]] std::string name() const;
  [[nodiscard]] LaunchShape grid_for(std::int64_t items) const {
    return pfc::grid_for(items, properties.multiProcessorCount);
  }
  /// Copies a result from the device into `answers`. Blocks. REQUIRES: bytes <= 256.
  void fetch(const void* from, std::size_t bytes);
};

}  // namespace pfc
