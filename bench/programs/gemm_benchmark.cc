// Measures the matrix products of the last linear layer and of the head.

#include <benchmark/benchmark.h>

#include "kernels/make_ops.h"
#include "kernels/owned_tensor.h"

namespace pfc {
namespace {

void gemm(benchmark::State& state, std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a,
          bool transpose_b) {
  const std::unique_ptr<Ops> ops = make_ops({.choice = DeviceChoice::kCpu});
  const OwnedTensor a(*ops, {m, k}), b(*ops, {k, n}), c(*ops, {m, n});
  for (const OwnedTensor* t : {&a, &b}) ops->fill(*t, 0.125f);
  for (auto _ : state) {
    ops->gemm({.m = m,
               .n = n,
               .k = k,
               .transpose_a = transpose_a,
               .transpose_b = transpose_b,
               .a = a,
               .b = b,
               .c = c});
  }
  using benchmark::Counter;
  state.counters["GFLOPs"] =
      Counter(2e-9 * static_cast<double>(m * n * k), Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] = Counter(static_cast<double>(a->bytes() + b->bytes() + c->bytes()) * 1e-9,
                                   Counter::kIsIterationInvariantRate);
}

#define PFC_GEMM(name, ...) \
  BENCHMARK_CAPTURE(gemm, name, __VA_ARGS__)->Unit(benchmark::kMillisecond)->UseRealTime()
PFC_GEMM(fc_forward, 32, 512, 25088, false, true);
PFC_GEMM(fc_backward_data, 32, 25088, 512, false, false);
PFC_GEMM(fc_backward_weights, 512, 25088, 32, true, false);
PFC_GEMM(head_logits, 128, 16384, 512, false, true);
PFC_GEMM(head_d_embeddings, 128, 512, 16384, false, false);
PFC_GEMM(head_d_centres, 16384, 512, 128, true, false);
#undef PFC_GEMM

}  // namespace
}  // namespace pfc
