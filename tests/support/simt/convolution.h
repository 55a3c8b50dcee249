// The convolutions of the emulated cuDNN: accepted problems, algorithms, and the enqueued work,
// which uses the CPU's ops. cudnn.cc has the C functions.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/cpu/ops/cpu_ops.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
  // Shared with enqueued work, which may run after the handle is destroyed.
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

/// An algorithm. All passes have the same algorithms with the same numbers.
struct Algorithm {
  int number;
  std::size_t workspace;
  bool deterministic;
  float error;  // relative; if not deterministic, differs from call to call
};
/// Fastest first.
inline constexpr Algorithm kAlgorithms[] = {
    {0, 512, false, 1e-3f},
    {5, 1024, true, 1e-4f},                  // transforms the numbers first
    {4, std::size_t{1} << 40, true, 1e-4f},  // needs more workspace than any caller provides
    {1, 8192, true, 0.f},
    {3, std::size_t{500} << 20, true, 0.f},
};

/// Sets which algorithms cuDNN has for a shape, to test missing ones. An empty function restores
/// all.
void set_algorithms(std::function<bool(int number, const Conv2dShape& shape)> has);
/// Returns the elements of kAlgorithms that cuDNN has for this shape.
std::vector<Algorithm> algorithms_of(const Conv2dShape& shape);

inline constexpr std::size_t kAnyWorkspace = ~std::size_t{0};

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

using Compute = void (*)(Conv2d& conv, const Tensor& a, const Tensor& b, const Tensor& out);

/// Enqueues a pass with algorithm `number`. a, b and out are the shapes of m.a, m.b and m.out.
cudnnStatus_t enqueue_pass(cudnnHandle_t handle, const Problem& p, int number, const Memory& m,
                           const void* alpha, const void* beta, const Shape& a, const Shape& b,
                           const Shape& out, Compute compute);

cudnnStatus_t workspace_bytes_of(const Problem& p, int number, std::size_t* bytes);

/// Lists the algorithms, fastest first. Those that need more workspace have an error status.
template <typename Number>
cudnnStatus_t list(const Problem& p, std::size_t workspace_bytes, int requested, int* returned,
                   SimtAlgorithmResult<Number>* results) {
  *returned = 0;
  if (!p.valid()) return CUDNN_STATUS_BAD_PARAM;
  for (const Algorithm& a : algorithms_of(p.shape())) {
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

/// Counts the call in timed_convolutions() and enqueues the writes of a timing run: to `out` and
/// the whole workspace. When the stream runs, throws std::logic_error if an input is zero or NaN,
/// because these change the time on a GPU.
cudnnStatus_t enqueue_timing(cudnnHandle_t handle, const Problem& p, const Memory& m,
                             const Shape& out);

template <typename Number>
cudnnStatus_t time(cudnnHandle_t handle, const Problem& p, const Memory& m, const Shape& out,
                   int requested, int* returned, SimtAlgorithmResult<Number>* results) {
  const cudnnStatus_t written = enqueue_timing(handle, p, m, out);
  if (written != CUDNN_STATUS_SUCCESS) return written;
  return list(p, m.workspace_bytes, requested, returned, results);
}

}  // namespace pfc::simt
