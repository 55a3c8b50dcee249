// Matrix products through cuBLASLt, row-major.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "kernels/cuda/runtime/owned_handle.h"
#include "kernels/tensor.h"

namespace pfc {

/// c [m, n] = alpha * op(a) op(b) + beta * c. Sums in float32; with beta 0, c is not read. Strides
/// are elements from one stored row to the next, so that a matrix may be part of a wider one.
struct MatrixProduct {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  ///< a is stored [k, m]
  bool transpose_b = false;  ///< b is stored [n, k]
  float alpha = 1.f;
  float beta = 0.f;
  DType in = DType::kFloat32;   ///< of a and b: float32, bfloat16 or float16
  DType out = DType::kFloat32;  ///< of c: float32 or `in`
  const void* a = nullptr;
  std::int64_t a_stride = 0;
  const void* b = nullptr;
  std::int64_t b_stride = 0;
  void* c = nullptr;
  std::int64_t c_stride = 0;
};

/// Of the calling thread's current device and of one host thread. What cuBLASLt's heuristic chose
/// is kept, so a product of a shape, types and alignment that it has seen costs one call.
class CublasLt {
 public:
  /// The most that NVIDIA asks for, on sm_90.
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  /// gpu: for error messages. tf32: float32 inputs may be rounded to 10 bits of mantissa, which
  /// tensor cores take.
  CublasLt(std::string gpu, bool tf32);
  ~CublasLt();

  /// Enqueues. `workspace`: kWorkspaceBytes on the device that nothing else uses meanwhile. Throws
  /// DeviceError that names the product.
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
