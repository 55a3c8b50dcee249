#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <stdexcept>
#include <vector>

#include "tests/support/simt/memory.h"

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  bool transpose_a, transpose_b;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t ld;
  std::int32_t batch = 1;
  std::uint32_t mode = 0;  // CUBLASLT_BATCH_MODE_POINTER_ARRAY: data are the addresses of matrices
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::size_t workspace_bytes = 0;
  std::uint32_t reduction = 7;
  std::uint32_t alignments[4] = {256, 256, 256, 256};
};

namespace pfc::simt {
namespace {

using Layout = cublasLtMatrixLayoutOpaque_t;

// An algorithm overwrites this much workspace, so that any other use of it fails a test.
constexpr std::size_t kWorkspace = 4096;
// Where an algorithm stores the alignment and the workspace size it was chosen for.
constexpr int kAlignmentOf = 0, kWorkspaceOf = 4;

double element(const void* p, cudaDataType_t type, std::size_t i) {
  switch (type) {
    case CUDA_R_32F:
      return static_cast<double>(static_cast<const float*>(p)[i]);
    case CUDA_R_16BF:
      return static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]));
    default:
      return static_cast<double>(__half2float(static_cast<const __half*>(p)[i]));
  }
}

void put(void* p, cudaDataType_t type, std::size_t i, double value) {
  const auto narrow = static_cast<float>(value);
  switch (type) {
    case CUDA_R_32F:
      static_cast<float*>(p)[i] = narrow;
      return;
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16(narrow);
      return;
    default:
      static_cast<__half*>(p)[i] = __float2half(narrow);
  }
}

// Rounds to nearest with a 10-bit mantissa.
double as_tf32(double value) {
  const auto narrow = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof(bits));
  bits = (bits + 0x1000u) & ~0x1fffu;
  float rounded;
  std::memcpy(&rounded, &bits, sizeof(rounded));
  return static_cast<double>(rounded);
}

// op(x) as a row-major matrix.
std::vector<double> unpack(const void* p, const Layout& x, bool transpose, bool tf32) {
  std::vector<double> values(x.rows * x.columns);
  for (std::uint64_t c = 0; c < x.columns; ++c) {
    for (std::uint64_t r = 0; r < x.rows; ++r) {
      const double value = element(p, x.type, c * static_cast<std::uint64_t>(x.ld) + r);
      values[transpose ? c * x.rows + r : r * x.columns + c] = tf32 ? as_tf32(value) : value;
    }
  }
  return values;
}

struct Product {
  cublasLtMatmulDescOpaque_t desc;
  Layout a, b, d;
  const void* a_data;
  const void* b_data;
  void* d_data;
  double alpha, beta;
  std::uint64_t alignments[4];  // of a, b, c and d

  void run() const {
    for (std::int32_t i = 0; i < d.batch; ++i) run(i);
  }

  void run(std::int32_t of_batch) const {
    const bool tf32 = desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    const auto matrix = [&](const Layout& x, const void* data, std::uint64_t alignment) {
      if (x.mode == 0) return data;
      const void* const found = static_cast<const void* const*>(data)[of_batch];
      if (!is_device(found) || reinterpret_cast<std::uintptr_t>(found) % alignment != 0) {
        throw std::logic_error("simt: cublasLtMatmul: an address is not GPU memory or not aligned");
      }
      return found;
    };
    void* const to = const_cast<void*>(matrix(d, d_data, alignments[3]));
    const std::vector<double> left =
        unpack(matrix(a, a_data, alignments[0]), a, desc.transpose_a, tf32);
    const std::vector<double> right =
        unpack(matrix(b, b_data, alignments[1]), b, desc.transpose_b, tf32);
    const std::uint64_t inner = desc.transpose_a ? a.rows : a.columns;
    std::vector<double> row(d.columns);
    for (std::uint64_t r = 0; r < d.rows; ++r) {
      row.assign(d.columns, 0);
      for (std::uint64_t k = 0; k < inner; ++k) {
        const double factor = left[r * inner + k];
        for (std::uint64_t c = 0; c < d.columns; ++c) row[c] += factor * right[k * d.columns + c];
      }
      for (std::uint64_t c = 0; c < d.columns; ++c) {
        const std::size_t i = c * static_cast<std::uint64_t>(d.ld) + r;
        const double before = beta == 0 ? 0 : beta * element(to, d.type, i);
        put(to, d.type, i, alpha * row[c] + before);
      }
    }
  }
};

bool valid(const cublasLtMatmulDescOpaque_t& desc, const Layout& a, const Layout& b,
           const Layout& d) {
  const auto rows = [](const Layout& x, bool t) { return t ? x.columns : x.rows; };
  return rows(a, desc.transpose_a) == d.rows && rows(b, !desc.transpose_b) == d.columns &&
         rows(a, !desc.transpose_a) == rows(b, desc.transpose_b) && d.rows > 0 && d.columns > 0 &&
         a.rows > 0 && a.columns > 0 && a.batch == d.batch && b.batch == d.batch && d.batch > 0;
}

bool supported(const cublasLtMatmulDescOpaque_t& desc, const Layout& a, const Layout& b,
               const Layout& d) {
  return a.type == b.type && (d.type == a.type || d.type == CUDA_R_32F) &&
         (desc.compute == CUBLAS_COMPUTE_32F || a.type == CUDA_R_32F);
}

cublasStatus_t copy_value(void* to, std::size_t expected, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != expected) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace pfc::simt

using namespace pfc::simt;  // NOLINT: C functions at global scope follow

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    default:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  *desc = new cublasLtMatmulDescOpaque_t{compute, false, false};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  std::int32_t operation = 0;
  const cublasStatus_t status = copy_value(&operation, sizeof(operation), value, bytes);
  (attribute == CUBLASLT_MATMUL_DESC_TRANSA ? desc->transpose_a : desc->transpose_b) =
      operation == CUBLAS_OP_T;
  return status;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  if (ld < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new cublasLtMatrixLayoutOpaque_t{type, rows, columns, ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  return attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT
             ? copy_value(&layout->batch, sizeof(layout->batch), value, bytes)
             : copy_value(&layout->mode, sizeof(layout->mode), value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return copy_value(&preference->workspace_bytes, sizeof(std::size_t), value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return copy_value(&preference->reduction, sizeof(std::uint32_t), value, bytes);
    default:
      return copy_value(
          &preference->alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
          sizeof(std::uint32_t), value, bytes);
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/,
                                              cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  *returned = 0;
  if (requested <= 0 || !valid(*desc, *a, *b, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*desc, *a, *b, *d) || c->type != d->type) return CUBLAS_STATUS_NOT_SUPPORTED;
  cublasLtMatmulHeuristicResult_t& best = results[0];
  best = {};
  for (int i = 0; i < 4; ++i) best.algo.data[kAlignmentOf + i] = preference->alignments[i];
  best.workspaceSize = preference->workspace_bytes >= kWorkspace ? kWorkspace : 0;
  best.algo.data[kWorkspaceOf] = best.workspaceSize;
  best.state = CUBLAS_STATUS_SUCCESS;
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t desc,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const void* const pointers[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    if (!is_device(pointers[i])) throw std::logic_error("simt: cublasLtMatmul: not GPU memory");
    const auto address = reinterpret_cast<std::uintptr_t>(pointers[i]);
    if (a_layout->mode == 0 && address % algorithm->data[kAlignmentOf + i] != 0)
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::size_t needed = algorithm->data[kWorkspaceOf];
  if (workspace_bytes < needed || (workspace_bytes > 0 && workspace == nullptr)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (needed > 0 && !is_device(workspace)) {
    throw std::logic_error("simt: cublasLtMatmul: the workspace is not GPU memory");
  }
  if (!valid(*desc, *a_layout, *b_layout, *d_layout)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*desc, *a_layout, *b_layout, *d_layout) || c_layout->type != d_layout->type ||
      c != d) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (a_layout->mode != d_layout->mode || b_layout->mode != d_layout->mode ||
      (d_layout->batch > 1 && d_layout->mode == 0)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const Product product{
      .desc = *desc,
      .a = *a_layout,
      .b = *b_layout,
      .d = *d_layout,
      .a_data = a,
      .b_data = b,
      .d_data = d,
      .alpha = static_cast<double>(*static_cast<const float*>(alpha)),
      .beta = static_cast<double>(*static_cast<const float*>(beta)),
      .alignments = {algorithm->data[kAlignmentOf], algorithm->data[kAlignmentOf + 1],
                     algorithm->data[kAlignmentOf + 2], algorithm->data[kAlignmentOf + 3]}};
  enqueue(stream, [product, workspace, needed] {
    if (needed > 0) std::memset(workspace, 0xff, needed);
    product.run();
  });
  return CUBLAS_STATUS_SUCCESS;
}
