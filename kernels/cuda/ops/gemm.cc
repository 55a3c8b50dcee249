#include "kernels/cuda/ops/cuda_ops.h"

namespace pfc {

void CudaOps::run_gemm(const Gemm& g) {
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
