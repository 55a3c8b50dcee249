// Elementwise kernels: each output element is computed from the input elements with the same
// index. They are memory-bound.
#pragma once

#include <cstdint>

#include "kernels/cuda/primitives/numbers.h"
#include "kernels/cuda/runtime/device.h"

namespace pfc {

/// Computes y[i] = op(x[i]...). With `packs`, all pointers are aligned: processes whole packs,
/// then the remaining elements one by one.
template <typename Op, typename Y, typename... X>
__global__ void map_kernel(Op op, std::int64_t n, bool packs, Y* y, const X*... x) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t packed = packs ? n / kPack : 0;
  for (std::int64_t i = first; i < packed; i += stride) {
    // Receives one pack of each x.
    const auto one = [&](const auto&... in) {
      Pack<Y> out;
#pragma unroll
      for (int k = 0; k < kPack; ++k) out.x[k] = from_float<Y>(op(to_float(in.x[k])...));
      store_pack(y + i * kPack, out);
    };
    one(load_pack(x + i * kPack)...);
  }
  for (std::int64_t i = packed * kPack + first; i < n; i += stride) {
    y[i] = from_float<Y>(op(to_float(x[i])...));
  }
}

/// Enqueues y[i] = op(x[i]...) for n elements. `op` has `__device__ float operator()(float...)`.
/// `name` is for error messages.
template <typename Op, typename Y, typename... X>
void map(const char* name, CudaDevice& device, std::int64_t n, Op op, Y* y, const X*... x) {
  if (n == 0) return;
  const bool packs = aligned(y) && (aligned(x) && ...);
  launch(name, device.grid_for(packs ? n / kPack + 1 : n), device.compute.get(),
         map_kernel<Op, Y, X...>, op, n, packs, y, x...);
}

struct Same {
  __device__ float operator()(float x) const { return x; }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

}  // namespace pfc
