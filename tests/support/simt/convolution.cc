#include "tests/support/simt/convolution.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/support/simt/memory.h"

namespace pfc::simt {
namespace {

std::atomic<int> timed = 0;

std::function<bool(int, const Conv2dShape&)> has_algorithm;

std::optional<Algorithm> find(int number, const Conv2dShape& shape) {
  for (const Algorithm& a : algorithms_of(shape)) {
    if (a.number == number) return a;
  }
  return std::nullopt;
}

// TF32 has float32's exponent and a 10-bit mantissa.
float rounded_to_tf32(float x) {
  const std::uint32_t bits = bits_of(x);
  if (has_full_exponent(bits)) return x;
  return std::bit_cast<float>((bits + 0x0fffu + ((bits >> 13) & 1u)) & ~0x1fffu);
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
  Floats(const void* p, cudnnDataType_t type, cudnnMathType_t math, std::int64_t n)
      : values_(static_cast<std::size_t>(n)) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = type == CUDNN_DATA_FLOAT ? static_cast<const float*>(p)[i]
                   : type == CUDNN_DATA_HALF
                       ? __half2float(static_cast<const __half*>(p)[i])
                       : __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]);
      if (math != CUDNN_FMA_MATH) values_[i] = rounded_to_tf32(values_[i]);
    }
  }
  explicit Floats(std::int64_t n) : values_(static_cast<std::size_t>(n)) {}

  Tensor tensor(Shape shape) { return {values_.data(), shape}; }
  [[nodiscard]] bool is_usual() const { return std::isnormal(values_[0]); }

  // p = values_ + beta * p
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

void set_algorithms(std::function<bool(int, const Conv2dShape&)> has) {
  has_algorithm = std::move(has);
}

std::vector<Algorithm> algorithms_of(const Conv2dShape& shape) {
  std::vector<Algorithm> all(std::begin(kAlgorithms), std::end(kAlgorithms));
  std::erase_if(
      all, [&](const Algorithm& a) { return has_algorithm && !has_algorithm(a.number, shape); });
  return all;
}

cudnnStatus_t enqueue_pass(cudnnHandle_t handle, const Problem& p, int number, const Memory& m,
                           const void* alpha, const void* beta, const Shape& a, const Shape& b,
                           const Shape& out, Compute compute) {
  const std::optional<Algorithm> algorithm = find(number, p.shape());
  if (!p.valid() || !algorithm || !usable(m, algorithm->workspace) ||
      *static_cast<const float*>(alpha) != 1.f) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const float factor = *static_cast<const float*>(beta);
  const cudnnDataType_t type = p.x->type;
  if (factor != 0.f && type != CUDNN_DATA_FLOAT) return CUDNN_STATUS_NOT_SUPPORTED;
  enqueue(handle->stream, [cpu = handle->cpu, s = p.shape(), algorithm, m, factor, type,
                           math = p.conv->math, a, b, out, compute] {
    std::memset(m.workspace, 0xff, algorithm->workspace);
    Floats left(m.a, type, math, a.elements()), right(m.b, type, math, b.elements()),
        result(out.elements());
    const std::unique_ptr<Conv2d> conv = cpu->conv2d(s);
    compute(*conv, left.tensor(a), right.tensor(b), result.tensor(out));
    result.store(m.out, type, factor, noise_of(*algorithm));
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t workspace_bytes_of(const Problem& p, int number, std::size_t* bytes) {
  if (!p.valid()) return CUDNN_STATUS_BAD_PARAM;
  const std::optional<Algorithm> algorithm = find(number, p.shape());
  if (!algorithm) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = algorithm->workspace;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t enqueue_timing(cudnnHandle_t handle, const Problem& p, const Memory& m,
                             const Shape& out) {
  if (!usable(m, 0)) return CUDNN_STATUS_BAD_PARAM;
  ++timed;
  const std::size_t bytes = static_cast<std::size_t>(out.elements()) * bytes_of(p.x->type);
  enqueue(handle->stream, [m, bytes, type = p.x->type] {
    for (const void* const input : {m.a, m.b}) {
      const Floats number(input, type, CUDNN_FMA_MATH, 1);
      if (!number.is_usual()) throw std::logic_error("simt: cuDNN was timed on unusual numbers");
    }
    std::memset(m.out, 0xff, bytes);
    if (m.workspace_bytes > 0) std::memset(m.workspace, 0xff, m.workspace_bytes);
  });
  return CUDNN_STATUS_SUCCESS;
}

int timed_convolutions() { return timed; }

}  // namespace pfc::simt
