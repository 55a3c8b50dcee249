#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc {

void CpuOps::gemm(const Gemm& g) {
  const float* const a = float_argument(g.a, g.m * g.k, "gemm: a is not [m, k]");
  const float* const b = float_argument(g.b, g.k * g.n, "gemm: b is not [k, n]");
  float* const c = float_argument(g.c, g.m * g.n, "gemm: c is not [m, n]");
  if (g.m == 0 || g.n == 0) return;
  device_.threads.apply();
  const dnnl_status_t status =
      dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, g.alpha, a,
                 g.transpose_a ? g.m : g.k, b, g.transpose_b ? g.k : g.n, g.beta, c, g.n);
  if (status != dnnl_success) throw DeviceError("CPU: oneDNN's sgemm failed");
}

}  // namespace pfc
