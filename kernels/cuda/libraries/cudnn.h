// Owners of cuDNN's handle and descriptors.
#pragma once

#include <cuda_runtime.h>
#include <cudnn.h>

#include <memory>
#include <string>

#include "kernels/cuda/runtime/owned_handle.h"
#include "kernels/tensor.h"

namespace pfc {

using CudnnTensor = OwnedHandle<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using CudnnFilter = OwnedHandle<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using CudnnConvolution =
    OwnedHandle<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;

/// cuDNN on one stream of the current device; used by one host thread.
class Cudnn {
 public:
  /// gpu: for error messages.
  Cudnn(std::string gpu, cudaStream_t stream);

  [[nodiscard]] cudnnHandle_t get() const { return handle_.get(); }
  [[nodiscard]] static std::string version();  ///< "9.19.0"

  /// Throws DeviceError that names GPU, call and `what`, unless `status` is success.
  void require(cudnnStatus_t status, const char* call, const std::string& what) const;

  /// Return descriptors of NHWC tensors and OHWI filters. Throw InputError for a tensor that is
  /// too large for cuDNN. `what`: for error messages.
  [[nodiscard]] CudnnTensor tensor(DType type, const Shape& shape, const std::string& what) const;
  [[nodiscard]] CudnnFilter filter(DType type, const Shape& shape, const std::string& what) const;

 private:
  const std::string gpu_;
  OwnedHandle<cudnnHandle_t, cudnnDestroy> handle_;
};

}  // namespace pfc
