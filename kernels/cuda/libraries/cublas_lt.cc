#include "kernels/cuda/libraries/cublas_lt.h"

#include <algorithm>
#include <compare>
#include <utility>

#include "common/error.h"

namespace pfc {
namespace {

// When this number of plans is reached, all are dropped. A head that samples its classes has tiles
// of a new size in almost every step, so the number of plans would grow without limit.
constexpr std::size_t kMostPlans = 1024;

using Operation = OwnedHandle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = OwnedHandle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = OwnedHandle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t cublas_type(DType type) {
  switch (type) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat16:
      return CUDA_R_16F;
    default:
      check(false, "gemm: float32, bfloat16 or float16 expected");
      return CUDA_R_32F;
  }
}

// Returns the alignment of the matrices of an operand.
std::uint32_t alignment(const MatrixProduct& p, const void* operand) {
  return p.addresses_aligned > 0 ? p.addresses_aligned
                                 : alignment_of(reinterpret_cast<std::uintptr_t>(operand));
}

std::string text(const MatrixProduct& p) {
  return std::to_string(p.m) + " x " + std::to_string(p.n) + " x " + std::to_string(p.k) + " (" +
         (p.transpose_a ? "T" : "N") + (p.transpose_b ? "T" : "N") + ", " + name_of(p.in) + " to " +
         name_of(p.out) + (p.batch > 1 ? ", " + std::to_string(p.batch) + " times" : "") + ")";
}

}  // namespace

struct CublasLt::Key {
  std::int64_t m, n, k, a_stride, b_stride, c_stride, batch;
  bool addresses, transpose_a, transpose_b, adds;
  DType in, out;
  std::uint32_t a_alignment, b_alignment, c_alignment;
  friend auto operator<=>(const Key&, const Key&) = default;
};

// The product c = op(a) op(b) in cuBLASLt's terms, with column-major matrices. A row-major matrix
// is the transpose of the column-major matrix in the same memory. So cuBLASLt computes
// c^T = op(b)^T op(a)^T: `b` describes its first operand (A), and `a` its second operand (B).
struct CublasLt::Plan {
  Operation operation;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
};

CublasLt::CublasLt(std::string gpu, bool tf32) : gpu_(std::move(gpu)), tf32_(tf32) {
  cublasLtHandle_t handle = nullptr;
  require(cublasLtCreate(&handle), "cublasLtCreate", {});
  handle_.reset(handle);
}

CublasLt::~CublasLt() = default;

void CublasLt::require(cublasStatus_t status, const char* call, const MatrixProduct& p) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string product = p.m == 0 ? "" : " for the matrix product " + text(p);
  throw DeviceError("CUDA: " + gpu_ + ": " + call + " failed with " +
                    cublasLtGetStatusName(status) + product);
}

CublasLt::Key CublasLt::key_of(const MatrixProduct& p) {
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .a_stride = p.a_stride,
          .b_stride = p.b_stride,
          .c_stride = p.c_stride,
          .batch = p.batch,
          .addresses = p.addresses_aligned > 0,
          .transpose_a = p.transpose_a,
          .transpose_b = p.transpose_b,
          .adds = p.beta != 0.f,
          .in = p.in,
          .out = p.out,
          .a_alignment = alignment(p, p.a),
          .b_alignment = alignment(p, p.b),
          .c_alignment = alignment(p, p.c)};
}

CublasLt::Plan CublasLt::make_plan(const MatrixProduct& p) const {
  Plan plan;
  const auto layout = [&](DType type, std::int64_t rows, std::int64_t columns,
                          std::int64_t stride) {
    cublasLtMatrixLayout_t made = nullptr;
    // cuBLASLt's rows are our columns: see Plan.
    require(
        cublasLtMatrixLayoutCreate(&made, cublas_type(type), static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), stride),
        "cublasLtMatrixLayoutCreate", p);
    Layout owner(made);
    if (p.addresses_aligned == 0) return owner;
    const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
      require(cublasLtMatrixLayoutSetAttribute(made, attribute, &value, sizeof(value)),
              "cublasLtMatrixLayoutSetAttribute", p);
    };
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(p.batch));
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, std::uint32_t{CUBLASLT_BATCH_MODE_POINTER_ARRAY});
    return owner;
  };
  plan.a = p.transpose_a ? layout(p.in, p.k, p.m, p.a_stride) : layout(p.in, p.m, p.k, p.a_stride);
  plan.b = p.transpose_b ? layout(p.in, p.n, p.k, p.b_stride) : layout(p.in, p.k, p.n, p.b_stride);
  plan.c = layout(p.out, p.m, p.n, p.c_stride);

  const bool tf32 = tf32_ && p.in == DType::kFloat32;
  cublasLtMatmulDesc_t operation = nullptr;
  require(cublasLtMatmulDescCreate(
              &operation, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate", p);
  plan.operation.reset(operation);
  const auto set_operation = [&](cublasLtMatmulDescAttributes_t attribute, bool transpose) {
    const cublasOperation_t value = transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
    require(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
            "cublasLtMatmulDescSetAttribute", p);
  };
  set_operation(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b);
  set_operation(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a);

  cublasLtMatmulPreference_t made = nullptr;
  require(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate", p);
  const Preference preference(made);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    require(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute", p);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  // If the sum over k is split, its parts are float32, added in a fixed order.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p, p.b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p, p.a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(p, p.c));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(p, p.c));

  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  require(cublasLtMatmulAlgoGetHeuristic(handle_.get(), operation, plan.b.get(), plan.a.get(),
                                         plan.c.get(), plan.c.get(), made, 1, &best, &found),
          "cublasLtMatmulAlgoGetHeuristic", p);
  require(found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : best.state, "cublasLtMatmulAlgoGetHeuristic",
          p);
  plan.algorithm = best.algo;
  return plan;
}

void CublasLt::multiply(const MatrixProduct& p, void* workspace, cudaStream_t stream) {
  check(p.m > 0 && p.n > 0 && p.k > 0 && p.batch > 0, "gemm: sizes must be positive");
  check(p.batch == 1 || p.addresses_aligned > 0, "gemm: several products need addresses");
  const Key key = key_of(p);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    if (plans_.size() >= kMostPlans) plans_.clear();
    found = plans_.emplace(key, make_plan(p)).first;
  }
  const Plan& plan = found->second;
  require(cublasLtMatmul(handle_.get(), plan.operation.get(), &p.alpha, p.b, plan.b.get(), p.a,
                         plan.a.get(), &p.beta, p.c, plan.c.get(), p.c, plan.c.get(),
                         &plan.algorithm, workspace, kWorkspaceBytes, stream),
          "cublasLtMatmul", p);
}

}  // namespace pfc
