// Work that is recorded once as a CUDA graph and launched as one from then on.
#pragma once

#include <cuda_runtime.h>

#include <functional>

#include "kernels/cuda/runtime/device.h"

namespace pfc {

/// The first run enqueues the work as it is: libraries choose their algorithms and make their
/// handles then, which a recording must not meet. The second run records; it and all others launch
/// the graph. Where the scratch area has moved since, which the graph has the address of, the work
/// is recorded anew. The device is borrowed.
class CudaGraphWork : public RepeatedWork {
 public:
  CudaGraphWork(CudaDevice& device, std::function<void()> enqueue);
  CudaGraphWork(const CudaGraphWork&) = delete;
  ~CudaGraphWork() override;

  void run() override;

 private:
  void record();
  void forget();

  CudaDevice& device_;
  const std::function<void()> enqueue_;
  bool has_run_ = false;
  const std::byte* scratch_ = nullptr;  // where it was when the graph was recorded
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace pfc
