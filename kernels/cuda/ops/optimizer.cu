// Optimizers over flat tensors, and the length of the gradient, which a step computes first.

#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/cuda/primitives/numbers.h"
#include "kernels/cuda/primitives/warps.h"
#include "kernels/math/optimizer.h"

namespace pfc {
namespace {

constexpr unsigned kBlocks = 512;  // for squares_kernel; sum_kernel runs with one block

// squares_kernel computes the blocks' sums, sum_kernel adds them; both in a fixed order.
__global__ void squares_kernel(std::int64_t n, const float* x, double* parts) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  double sum = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void sum_kernel(unsigned n, const double* parts, double* total) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < n; i += kThreads) sum += parts[i];
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) *total = sum;
}

template <typename T>
struct alignas(4 * sizeof(T)) FourNumbers {
  T x[4];
};

/// With `packs`, all tensors are aligned, and a thread processes four elements at a time. Update
/// is SgdRule or AdamWRule (kernels/math/optimizer.h). b is nullptr for an optimizer with one
/// state. `operand` receives the new weights in the type of the activations, or is nullptr.
template <typename Update, typename Operand>
__global__ void update_kernel(Update update, std::int64_t n, bool packs, float scale,
                              const float* gradient, float* weight, float* a, float* b,
                              Operand* operand) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t packed = packs ? n / 4 : 0;
  for (std::int64_t i = first; i < packed; i += stride) {
    const float4 g = reinterpret_cast<const float4*>(gradient)[i];
    float4 w = reinterpret_cast<float4*>(weight)[i];
    float4 s = reinterpret_cast<float4*>(a)[i];
    float4 t = b != nullptr ? reinterpret_cast<float4*>(b)[i] : make_float4(0.f, 0.f, 0.f, 0.f);
    update(scale * g.x, w.x, s.x, t.x);
    update(scale * g.y, w.y, s.y, t.y);
    update(scale * g.z, w.z, s.z, t.z);
    update(scale * g.w, w.w, s.w, t.w);
    reinterpret_cast<float4*>(weight)[i] = w;
    reinterpret_cast<float4*>(a)[i] = s;
    if (b != nullptr) reinterpret_cast<float4*>(b)[i] = t;
    if (operand != nullptr) {
      reinterpret_cast<FourNumbers<Operand>*>(operand)[i] = {
          {from_float<Operand>(w.x), from_float<Operand>(w.y), from_float<Operand>(w.z),
           from_float<Operand>(w.w)}};
    }
  }
  for (std::int64_t i = packed * 4 + first; i < n; i += stride) {
    float second = b != nullptr ? b[i] : 0.f;
    update(scale * gradient[i], weight[i], a[i], second);
    if (b != nullptr) b[i] = second;
    if (operand != nullptr) operand[i] = from_float<Operand>(weight[i]);
  }
}

template <typename Update>
void update(const char* name, const CudaDevice& device, Update formula, float scale,
            const Tensor& gradient, const Tensor& weight, const Tensor& a, const Tensor& b,
            const Tensor& operand) {
  const std::int64_t n = weight.elements();
  float* const second = b ? b.f32() : nullptr;
  const bool packs = aligned(gradient.data) && aligned(weight.data) && aligned(a.data) &&
                     aligned(second) && aligned(operand.data);
  // Uses one kernel for both cases, so that results with and without an operand are bit-identical.
  with_element_type(device.activations, [&](auto* type) {
    using Rounded = std::remove_pointer_t<decltype(type)>;
    launch(name, device.grid_for(packs ? n / 4 + 1 : n), device.compute.get(),
           update_kernel<Update, Rounded>, formula, n, packs, scale, gradient.f32(), weight.f32(),
           a.f32(), second, static_cast<Rounded*>(operand.data));
  });
}

}  // namespace

double CudaOps::run_sum_of_squares(const Tensor& x) {
  device_.scratch.reserve((kBlocks + 1) * sizeof(double));
  auto* const parts = reinterpret_cast<double*>(device_.scratch.data());
  double* const total = parts + kBlocks;
  launch("sum_of_squares", {.blocks = dim3(kBlocks), .threads = dim3(kThreads)},
         device_.compute.get(), squares_kernel, x.elements(), x.f32(), parts);
  launch("sum_of_squares", {.blocks = dim3(1), .threads = dim3(kThreads)}, device_.compute.get(),
         sum_kernel, kBlocks, parts, total);
  device_.fetch(total, sizeof(double));
  return *device_.answers.as<double>();
}

void CudaOps::run_sgd(const SgdOptions& o, float gradient_scale, const Tensor& gradient,
                      const Tensor& weight, const Tensor& velocity, const Tensor& operand) {
  update("sgd", device_, SgdRule{o}, gradient_scale, gradient, weight, velocity, {}, operand);
}

void CudaOps::run_adamw(const AdamWOptions& o, float gradient_scale, const Tensor& gradient,
                        const Tensor& weight, const Tensor& m, const Tensor& v,
                        const Tensor& operand) {
  update("adamw", device_, AdamWRule{o}, gradient_scale, gradient, weight, m, v, operand);
}

}  // namespace pfc
