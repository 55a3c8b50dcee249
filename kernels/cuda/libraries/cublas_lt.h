// Row-major matrix products with cuBLASLt.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "kernels/cuda/runtime/owned_handle.h"
#include "kernels/tensor.h"

namespace pfc {

/// c [m, n] = alpha * op(a) op(b) + beta * c. Sums are float32. c is not read if beta is 0. A
/// stride is the number of elements between stored rows, so a matrix can be a part of a wider one.
struct MatrixProduct {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  ///< a is stored [k, m]
  bool transpose_b = false;  ///< b is stored [n, k]
  float alpha = 1.f;
  float beta = 0.f;
  DType in = DType::kFloat32;   ///< type of a and b: float32, bfloat16 or float16
  DType out = DType::kFloat32;  ///< type of c: float32 or `in`
  const void* a = nullptr;
  std::int64_t a_stride = 0;
  const void* b = nullptr;
  std::int64_t b_stride = 0;
  void* c = nullptr;
  std::int64_t c_stride = 0;
  std::int64_t batch = 1;  ///< number of products; 1 without addresses
  /// If not 0, a pointer-array batch: a, b and c are device arrays of `batch` addresses, each
  /// aligned to this many bytes.
  std::uint32_t addresses_aligned = 0;
};

/// Returns the largest alignment that several addresses have in common, at most 256 bytes, because
/// no kernel of cuBLASLt needs more. `bits`: the bitwise OR of the addresses.
constexpr std::uint32_t alignment_of(std::uint64_t bits) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bits & (~bits + 1), 256));
}

/// cuBLASLt on the device that is current at construction; used by one host thread. Queries
/// cuBLASLt's heuristic once for each combination of shape, types and alignment.
class CublasLt {
 public:
  /// NVIDIA's recommendation for sm_90; other GPUs need less.
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  /// gpu: for error messages. tf32: float32 inputs may be rounded to a 10-bit mantissa, so that
  /// tensor cores can multiply them.
  CublasLt(std::string gpu, bool tf32);
  ~CublasLt();

  /// Enqueues the product on the stream. Throws DeviceError that names the product. REQUIRES:
  /// `workspace` has kWorkspaceBytes on the device, and only work on this stream uses it.
  void multiply(const MatrixProduct& p, void* workspace, cudaStream_t stream);

 private:
  struct Key;
  struct Plan;

  [[nodiscard]] static Key key_of(const MatrixProduct& p);
  [[nodiscard]] Plan make_plan(const MatrixProduct& p) const;
  void require(cublasStatus_t status, const char* call, const MatrixProduct& p) const;

  const std::string gpu_;
  const bool tf32_;
  OwnedHandle<cublasLtHandle_t, cublasLtDestroy> handle_;
  std::map<Key, Plan> plans_;
};

}  // namespace pfc
