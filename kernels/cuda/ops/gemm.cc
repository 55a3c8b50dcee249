#include "kernels/cuda/ops/cuda_ops.h"

namespace pfc {

void CudaOps::gemm(const Gemm& g) {
  check(g.a.elements() == g.m * g.k, "gemm: a is not [m, k]");
  check(g.b.elements() == g.k * g.n, "gemm: b is not [k, n]");
  check(g.c.elements() == g.m * g.n, "gemm: c is not [m, n]");
  check(g.a.dtype == g.b.dtype, "gemm: a and b are of different types");
  check(g.c.dtype == g.a.dtype || g.c.dtype == DType::kFloat32, "gemm: type of c");
  if (g.m == 0 || g.n == 0) return;
  cublas_.multiply({.m = g.m,
                    .n = g.n,
                    .k = g.k,
                    .transpose_a = g.transpose_a,
                    .transpose_b = g.transpose_b,
                    .alpha = g.alpha,
                    .beta = g.beta,
                    .in = g.a.dtype,
                    .out = g.c.dtype,
                    .a = g.a.data,
                    .a_stride = g.transpose_a ? g.m : g.k,
                    .b = g.b.data,
                    .b_stride = g.transpose_b ? g.k : g.n,
                    .c = g.c.data,
                    .c_stride = g.n},
                   device_.scratch.data(), device_.compute.get());
}

}  // namespace pfc
