#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "tests/support/simt/memory.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
  // Shared: work that is enqueued may run after the handle has gone.
  std::shared_ptr<pfc::CpuOps> cpu = std::make_shared<pfc::CpuOps>(1);
};
struct cudnnTensorStruct {
  cudnnDataType_t type;
  int n, c, h, w;
};
struct cudnnFilterStruct {
  cudnnDataType_t type;
  int k, c, h, w;
};
struct cudnnConvolutionStruct {
  int pad, stride, groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  bool valid = false;
};

namespace pfc::simt {
namespace {

std::atomic<int> timed = 0;

/// What each pass has, the fastest first, under numbers that mean the same kind in all of them.
struct Algorithm {
  int number;
  std::size_t workspace;
  bool deterministic;
  float error;  // relative; of what is not deterministic another one every time
};
constexpr Algorithm kAlgorithms[] = {
    {0, 512, false, 1e-3f},
    {5, 1024, true, 1e-4f},                  // on transforms of the numbers
    {4, std::size_t{1} << 40, true, 1e-4f},  // more workspace than anyone would give
    {1, 8192, true, 0.f},
};

const Algorithm* find(int number) {
  const auto* const found = std::ranges::find(kAlgorithms, number, &Algorithm::number);
  return found == std::end(kAlgorithms) ? nullptr : found;
}

std::size_t bytes_of(cudnnDataType_t type) { return type == CUDNN_DATA_FLOAT ? 4 : 2; }

struct Problem {
  const cudnnTensorStruct* x;
  const cudnnFilterStruct* w;
  const cudnnTensorStruct* y;
  const cudnnConvolutionStruct* conv;

  [[nodiscard]] Conv2dShape shape() const {
    return {.batch = x->n,
            .in_h = x->h,
            .in_w = x->w,
            .in_c = x->c,
            .out_c = y->c,
            .kernel = w->h,
            .stride = conv->stride,
            .pad = conv->pad,
            .groups = conv->groups};
  }
  [[nodiscard]] bool valid() const {
    const Conv2dShape s = shape();
    return conv->valid && x->type == y->type && x->type == w->type && w->h == w->w &&
           w->k == y->c && w->c * conv->groups == x->c && y->n == x->n && y->h == s.out_h() &&
           y->w == s.out_w() && (conv->math != CUDNN_FMA_MATH || x->type == CUDNN_DATA_FLOAT);
  }
};

struct Memory {
  const void* a;
  const void* b;
  void* out;
  void* workspace;
  std::size_t workspace_bytes;
};

// Tensor cores read 16 bytes at a time.
bool usable(const Memory& m, std::size_t workspace) {
  for (const void* p : {m.a, m.b, static_cast<const void*>(m.out)}) {
    if (!is_device(p)) throw std::logic_error("simt: cuDNN was given memory of the host");
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) return false;
  }
  return m.workspace_bytes >= workspace && (workspace == 0 || is_device(m.workspace));
}

class Floats {
 public:
  Floats(const void* p, cudnnDataType_t type, std::int64_t n)
      : values_(static_cast<std::size_t>(n)) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = type == CUDNN_DATA_FLOAT ? static_cast<const float*>(p)[i]
                   : type == CUDNN_DATA_HALF
                       ? __half2float(static_cast<const __half*>(p)[i])
                       : __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]);
    }
  }
  explicit Floats(std::int64_t n) : values_(static_cast<std::size_t>(n)) {}

  Tensor tensor(Shape shape) { return {values_.data(), shape}; }

  // p = these + beta * p
  void store(void* p, cudnnDataType_t type, float beta, float noise) const {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      float value = values_[i] * (1.f + noise);
      if (type == CUDNN_DATA_FLOAT) {
        if (beta != 0.f) value += beta * static_cast<float*>(p)[i];
        static_cast<float*>(p)[i] = value;
      } else if (type == CUDNN_DATA_HALF) {
        static_cast<__half*>(p)[i] = __float2half(value);
      } else {
        static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16(value);
      }
    }
  }

 private:
  std::vector<float> values_;
};

float noise_of(const Algorithm& algorithm) {
  static std::atomic<int> runs = 0;
  return algorithm.error * (algorithm.deterministic ? 1.f : static_cast<float>(++runs));
}

using Compute = void (*)(Conv2d& conv, const Tensor& a, const Tensor& b, const Tensor& out);

cudnnStatus_t enqueue_pass(cudnnHandle_t handle, const Problem& p, int number, const Memory& m,
                           const void* alpha, const void* beta, const Shape& a, const Shape& b,
                           const Shape& out, Compute compute) {
  const Algorithm* const algorithm = find(number);
  if (!p.valid() || algorithm == nullptr || !usable(m, algorithm->workspace) ||
      *static_cast<const float*>(alpha) != 1.f) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const float factor = *static_cast<const float*>(beta);
  const cudnnDataType_t type = p.x->type;
  if (factor != 0.f && type != CUDNN_DATA_FLOAT) return CUDNN_STATUS_NOT_SUPPORTED;
  enqueue(handle->stream, [cpu = handle->cpu, s = p.shape(), algorithm, m, factor, type, a, b, out,
                           compute] {
    std::memset(m.workspace, 0xff, algorithm->workspace);
    Floats left(m.a, type, a.elements()), right(m.b, type, b.elements()), result(out.elements());
    const std::unique_ptr<Conv2d> conv = cpu->conv2d(s);
    compute(*conv, left.tensor(a), right.tensor(b), result.tensor(out));
    result.store(m.out, type, factor, noise_of(*algorithm));
  });
  return CUDNN_STATUS_SUCCESS;
}

template <typename Number>
cudnnStatus_t list(const Problem& p, std::size_t workspace_bytes, int requested, int* returned,
                   SimtAlgorithmResult<Number>* results) {
  *returned = 0;
  if (!p.valid()) return CUDNN_STATUS_BAD_PARAM;
  for (const Algorithm& a : kAlgorithms) {
    if (*returned == requested) break;
    SimtAlgorithmResult<Number>& result = results[(*returned)++];
    result = {};
    result.algo = static_cast<Number>(a.number);
    result.memory = a.workspace;
    result.status = a.workspace <= workspace_bytes
                        ? CUDNN_STATUS_SUCCESS
                        : CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    result.time = static_cast<float>(*returned);
    result.determinism = a.deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    result.mathType = p.conv->math == CUDNN_FMA_MATH ? CUDNN_DEFAULT_MATH : p.conv->math;
  }
  return CUDNN_STATUS_SUCCESS;
}

// Writes what a timing writes: the results, and as much workspace as was given.
template <typename Number>
cudnnStatus_t time(cudnnHandle_t handle, const Problem& p, const Memory& m, const Shape& out,
                   int requested, int* returned, SimtAlgorithmResult<Number>* results) {
  if (!usable(m, 0)) return CUDNN_STATUS_BAD_PARAM;
  ++timed;
  const std::size_t bytes = static_cast<std::size_t>(out.elements()) * bytes_of(p.x->type);
  enqueue(handle->stream, [m, bytes] {
    std::memset(m.out, 0xff, bytes);
    if (m.workspace_bytes > 0) std::memset(m.workspace, 0xff, m.workspace_bytes);
  });
  return list(p, m.workspace_bytes, requested, returned, results);
}

cudnnStatus_t workspace_bytes_of(const Problem& p, int number, std::size_t* bytes) {
  if (!p.valid()) return CUDNN_STATUS_BAD_PARAM;
  const Algorithm* const algorithm = find(number);
  if (algorithm == nullptr) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = algorithm->workspace;
  return CUDNN_STATUS_SUCCESS;
}

constexpr std::size_t kAnyWorkspace = ~std::size_t{0};

}  // namespace

int timed_convolutions() { return timed; }

}  // namespace pfc::simt

using namespace pfc::simt;  // NOLINT: what follows are C functions at global scope
using pfc::Conv2d;
using pfc::Tensor;

std::size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    default:
      return "CUDNN_STATUS_NOT_SUPPORTED";
  }
}
void cudnnGetLastErrorString(char* message, std::size_t max_size) {
  std::snprintf(message, max_size, "an emulated reason");
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* desc) {
  *desc = new cudnnTensorStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t desc) {
  delete desc;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t desc, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  if (n <= 0 || c <= 0 || h <= 0 || w <= 0) return CUDNN_STATUS_BAD_PARAM;
  if (format != CUDNN_TENSOR_NHWC) return CUDNN_STATUS_NOT_SUPPORTED;
  *desc = {type, n, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* desc) {
  *desc = new cudnnFilterStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t desc) {
  delete desc;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t desc, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  if (k <= 0 || c <= 0 || h <= 0 || w <= 0) return CUDNN_STATUS_BAD_PARAM;
  if (format != CUDNN_TENSOR_NHWC) return CUDNN_STATUS_NOT_SUPPORTED;
  *desc = {type, k, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* desc) {
  *desc = new cudnnConvolutionStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t desc) {
  delete desc;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t desc, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  if (pad_h != pad_w || stride_h != stride_w || dilation_h != 1 || dilation_w != 1 ||
      mode != CUDNN_CROSS_CORRELATION || compute != CUDNN_DATA_FLOAT) {
    return CUDNN_STATUS_NOT_SUPPORTED;  // here; not used
  }
  desc->pad = pad_h;
  desc->stride = stride_h;
  desc->valid = true;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t desc, cudnnMathType_t math) {
  desc->math = math;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t desc, int groups) {
  desc->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t /*handle*/, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algo,
    std::size_t* bytes) {
  return workspace_bytes_of({x, w, y, conv}, algo, bytes);
}
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t /*handle*/, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, int requested, int* returned,
    cudnnConvolutionFwdAlgoPerf_t* results) {
  return list({x, w, y, conv}, kAnyWorkspace, requested, returned, results);
}
cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, const void* x_data, cudnnFilterDescriptor_t w,
    const void* w_data, cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, void* y_data,
    int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* results, void* workspace,
    std::size_t workspace_bytes) {
  const Problem p{x, w, y, conv};
  return time(handle, p, {x_data, w_data, y_data, workspace, workspace_bytes}, p.shape().y_shape(),
              requested, returned, results);
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t x, const void* x_data,
                                      cudnnFilterDescriptor_t w, const void* w_data,
                                      cudnnConvolutionDescriptor_t conv,
                                      cudnnConvolutionFwdAlgo_t algo, void* workspace,
                                      std::size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y, void* y_data) {
  const Problem p{x, w, y, conv};
  const pfc::Conv2dShape s = p.shape();
  return enqueue_pass(handle, p, algo, {x_data, w_data, y_data, workspace, workspace_bytes}, alpha,
                      beta, s.x_shape(), s.w_shape(), s.y_shape(),
                      [](Conv2d& c, const Tensor& in, const Tensor& weights, const Tensor& out) {
                        c.forward(in, weights, out);
                      });
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t /*handle*/, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algo, std::size_t* bytes) {
  return workspace_bytes_of({dx, w, dy, conv}, algo, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t /*handle*/, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx, int requested, int* returned,
    cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return list({dx, w, dy, conv}, kAnyWorkspace, requested, returned, results);
}
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, const void* w_data, cudnnTensorDescriptor_t dy,
    const void* dy_data, cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx,
    void* dx_data, int requested, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results,
    void* workspace, std::size_t workspace_bytes) {
  const Problem p{dx, w, dy, conv};
  return time(handle, p, {dy_data, w_data, dx_data, workspace, workspace_bytes},
              p.shape().x_shape(), requested, returned, results);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t w, const void* w_data,
                                           cudnnTensorDescriptor_t dy, const void* dy_data,
                                           cudnnConvolutionDescriptor_t conv,
                                           cudnnConvolutionBwdDataAlgo_t algo, void* workspace,
                                           std::size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx, void* dx_data) {
  const Problem p{dx, w, dy, conv};
  const pfc::Conv2dShape s = p.shape();
  return enqueue_pass(handle, p, algo, {dy_data, w_data, dx_data, workspace, workspace_bytes},
                      alpha, beta, s.y_shape(), s.w_shape(), s.x_shape(),
                      [](Conv2d& c, const Tensor& in, const Tensor& weights, const Tensor& out) {
                        c.backward_data(in, weights, out);
                      });
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t /*handle*/, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algo, std::size_t* bytes) {
  return workspace_bytes_of({x, dw, dy, conv}, algo, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t /*handle*/, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw, int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return list({x, dw, dy, conv}, kAnyWorkspace, requested, returned, results);
}
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, const void* x_data, cudnnTensorDescriptor_t dy,
    const void* dy_data, cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw,
    void* dw_data, int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results,
    void* workspace, std::size_t workspace_bytes) {
  const Problem p{x, dw, dy, conv};
  return time(handle, p, {x_data, dy_data, dw_data, workspace, workspace_bytes},
              p.shape().w_shape(), requested, returned, results);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             cudnnTensorDescriptor_t x, const void* x_data,
                                             cudnnTensorDescriptor_t dy, const void* dy_data,
                                             cudnnConvolutionDescriptor_t conv,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void* workspace,
                                             std::size_t workspace_bytes, const void* beta,
                                             cudnnFilterDescriptor_t dw, void* dw_data) {
  const Problem p{x, dw, dy, conv};
  const pfc::Conv2dShape s = p.shape();
  return enqueue_pass(handle, p, algo, {x_data, dy_data, dw_data, workspace, workspace_bytes},
                      alpha, beta, s.x_shape(), s.y_shape(), s.w_shape(),
                      [](Conv2d& c, const Tensor& in, const Tensor& out, const Tensor& weights) {
                        c.backward_weights(in, out, weights, false);
                      });
}
