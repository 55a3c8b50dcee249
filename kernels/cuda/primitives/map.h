// One pass over memory that computes every element from the elements at the same place: bound by
// bytes.
#pragma once

#include <cstdint>

#include "kernels/cuda/primitives/numbers.h"
#include "kernels/cuda/runtime/device.h"

namespace pfc {

/// y[i] = op(x[i]...). Packs where every pointer is aligned, then what is left one by one.
template <typename Op, typename Y, typename... X>
__global__ void map_kernel(Op op, std::int64_t n, bool packs, Y* y, const X*... x) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t packed = packs ? n / kPack : 0;
  for (std::int64_t i = first; i < packed; i += stride) {
    // A pack for each x, folded element by element.
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

/// Enqueues. `op` is a functor with __device__ float operator()(float...). `name` is for errors.
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
