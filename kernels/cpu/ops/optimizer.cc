#include <algorithm>
#include <array>

#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc {

double CpuOps::run_sum_of_squares(const Tensor& x) {
  // The blocks depend only on the size, and their sums are added in order, so the result does not
  // depend on the number of threads.
  constexpr int kBlocks = 512;
  constexpr std::int64_t kSmallestBlock = 4096;
  std::array<double, kBlocks> sums{};
  const std::int64_t n = x.elements();
  const float* const values = x.f32();
  const int blocks = static_cast<int>(std::clamp<std::int64_t>(n / kSmallestBlock, 1, kBlocks));
  device_.threads.each_range(blocks, 1, n, [&](const Range& r) {
    for (std::int64_t block = r.begin; block < r.end; ++block) {
      const Range part = part_of(n, static_cast<int>(block), blocks, kFloatsOfLine);
      sums[static_cast<std::size_t>(block)] =
          device_.vector.sum_of_squares(values + part.begin, part.size());
    }
  });
  double sum = 0;
  for (int block = 0; block < blocks; ++block) sum += sums[static_cast<std::size_t>(block)];
  return sum;
}

void CpuOps::run_sgd(const SgdOptions& o, float gradient_scale, const Tensor& gradient,
                     const Tensor& weight, const Tensor& velocity, const Tensor& operand) {
  if (operand && operand.dtype == DType::kFloat32) {  // nothing to round
    run_sgd(o, gradient_scale, gradient, weight, velocity, {});
    return run_copy(weight, operand);
  }
  const std::int64_t n = weight.elements();
  float* const w = weight.f32();
  const float* const g = gradient.f32();
  float* const v = velocity.f32();
  BFloat16* const rounded = numbers<BFloat16>(operand);
  device_.threads.each_range(n, kFloatsOfLine, n, [&](const Range& r) {
    device_.vector.sgd(o, gradient_scale, g + r.begin, w + r.begin, v + r.begin,
                       rounded == nullptr ? nullptr : rounded + r.begin, r.size());
  });
}

void CpuOps::run_adamw(const AdamWOptions& o, float gradient_scale, const Tensor& gradient,
                       const Tensor& weight, const Tensor& m, const Tensor& v,
                       const Tensor& operand) {
  if (operand && operand.dtype == DType::kFloat32) {
    run_adamw(o, gradient_scale, gradient, weight, m, v, {});
    return run_copy(weight, operand);
  }
  const std::int64_t n = weight.elements();
  float* const w = weight.f32();
  const float* const g = gradient.f32();
  float* const first = m.f32();
  float* const second = v.f32();
  BFloat16* const rounded = numbers<BFloat16>(operand);
  device_.threads.each_range(n, kFloatsOfLine, n, [&](const Range& r) {
    device_.vector.adamw(o, gradient_scale, g + r.begin, w + r.begin, first + r.begin,
                         second + r.begin, rounded == nullptr ? nullptr : rounded + r.begin,
                         r.size());
  });
}

}  // namespace pfc
