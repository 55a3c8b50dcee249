#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc {

void CpuOps::plan_gemm(const Gemm& g) {
  if (g.a.dtype == DType::kBFloat16) products_.plan(g);
}

void CpuOps::run_gemm(const Gemm& g) {
  if (g.a.dtype == DType::kBFloat16) return products_.multiply(g);
  const float* const a = g.a.f32();
  const float* const b = g.b.f32();
  float* const c = g.c.f32();
  device_.threads.apply();
  const dnnl_status_t status =
      dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, g.alpha, a,
                 g.transpose_a ? g.m : g.k, b, g.transpose_b ? g.k : g.n, g.beta, c, g.n);
  if (status != dnnl_success) throw DeviceError("CPU: oneDNN's sgemm failed");
}

}  // namespace pfc
