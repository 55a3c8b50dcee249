#include "tests/support/simt/convolution.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "tests/support/simt/memory.h"

namespace pfc::simt {
namespace {

std::atomic<int> timed = 0;

const Algorithm* find(int number) {
  const auto* const found = std::ranges::find(kAlgorithms, number, &Algorithm::number);
  return found == std::end(kAlgorithms) ? nullptr : found;
}

std::size_t bytes_of(cudnnDataType_t type) { return type == CUDNN_DATA_FLOAT ? 4 : 2; }

// Tensor cores read 16 bytes at a time, so channels must fill them.
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

}  // namespace

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

cudnnStatus_t workspace_bytes_of(const Problem& p, int number, std::size_t* bytes) {
  if (!p.valid()) return CUDNN_STATUS_BAD_PARAM;
  const Algorithm* const algorithm = find(number);
  if (algorithm == nullptr) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = algorithm->workspace;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t enqueue_timing(cudnnHandle_t handle, const Problem& p, const Memory& m,
                             const Shape& out) {
  if (!usable(m, 0)) return CUDNN_STATUS_BAD_PARAM;
  ++timed;
  const std::size_t bytes = static_cast<std::size_t>(out.elements()) * bytes_of(p.x->type);
  enqueue(handle->stream, [m, bytes] {
    std::memset(m.out, 0xff, bytes);
    if (m.workspace_bytes > 0) std::memset(m.workspace, 0xff, m.workspace_bytes);
  });
  return CUDNN_STATUS_SUCCESS;
}

int timed_convolutions() { return timed; }

}  // namespace pfc::simt
