#include "kernels/cuda/libraries/cudnn.h"

#include <array>
#include <limits>
#include <utility>

#include "common/error.h"

namespace pfc {
namespace {

cudnnDataType_t cudnn_type(DType type) {
  switch (type) {
    case DType::kFloat32:
      return CUDNN_DATA_FLOAT;
    case DType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    case DType::kFloat16:
      return CUDNN_DATA_HALF;
    default:
      check(false, "cuDNN: float32, bfloat16 or float16 expected");
      return CUDNN_DATA_FLOAT;
  }
}

// cuDNN's sizes and strides are of type int.
std::array<int, 4> sizes_of(const Shape& shape, const std::string& what) {
  if (shape.elements() > std::numeric_limits<int>::max()) {
    throw InputError("CUDA: " + what + " has a tensor of " + std::to_string(shape.elements()) +
                     " elements; cuDNN takes at most 2147483647: use a smaller batch_size");
  }
  return {static_cast<int>(shape[0]), static_cast<int>(shape[1]), static_cast<int>(shape[2]),
          static_cast<int>(shape[3])};
}

}  // namespace

Cudnn::Cudnn(std::string gpu, cudaStream_t stream) : gpu_(std::move(gpu)) {
  cudnnHandle_t handle = nullptr;
  require(cudnnCreate(&handle), "cudnnCreate", "cuDNN " + version());
  handle_.reset(handle);
  require(cudnnSetStream(handle, stream), "cudnnSetStream", "cuDNN " + version());
}

std::string Cudnn::version() {
  const std::size_t v = cudnnGetVersion();  // major * 10000 + minor * 100 + patch
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
         std::to_string(v % 100);
}

void Cudnn::require(cudnnStatus_t status, const char* call, const std::string& what) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 256> detail{};
  cudnnGetLastErrorString(detail.data(), detail.size());
  std::string why = detail.data();
  for (char& c : why) c = c == '\n' ? ' ' : c;
  throw DeviceError("CUDA: " + gpu_ + ": " + call + " failed with " + cudnnGetErrorString(status) +
                    " for " + what + (why.empty() ? "" : ": " + why));
}

CudnnTensor Cudnn::tensor(DType type, const Shape& shape, const std::string& what) const {
  cudnnTensorDescriptor_t made = nullptr;
  require(cudnnCreateTensorDescriptor(&made), "cudnnCreateTensorDescriptor", what);
  CudnnTensor owned(made);
  const auto [n, h, w, c] = sizes_of(shape, what);
  require(cudnnSetTensor4dDescriptor(made, CUDNN_TENSOR_NHWC, cudnn_type(type), n, c, h, w),
          "cudnnSetTensor4dDescriptor", what);
  return owned;
}

CudnnFilter Cudnn::filter(DType type, const Shape& shape, const std::string& what) const {
  cudnnFilterDescriptor_t made = nullptr;
  require(cudnnCreateFilterDescriptor(&made), "cudnnCreateFilterDescriptor", what);
  CudnnFilter owned(made);
  const auto [k, h, w, c] = sizes_of(shape, what);
  require(cudnnSetFilter4dDescriptor(made, cudnn_type(type), CUDNN_TENSOR_NHWC, k, c, h, w),
          "cudnnSetFilter4dDescriptor", what);
  return owned;
}

}  // namespace pfc
