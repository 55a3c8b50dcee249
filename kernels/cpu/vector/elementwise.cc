// Loops over flat memory, which the compiler vectorises for the instruction set.

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/vector.h"

namespace pfc::PFC_ISA {

void normalise_images(const std::uint8_t* x, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i]) / 127.5f - 1.f;
}

void add(const float* a, const float* b, float* y, std::int64_t n) {
  for_each_vector(n, [&]<typename V>(std::int64_t i)
                         PFC_INLINE_LAMBDA { store(y + i, load<V>(a + i) + load<V>(b + i)); });
}

void add_bias(float* y, const float* bias, std::int64_t rows, std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row) add(y + row * n, bias, y + row * n, n);
}

void add_columns(const float* __restrict x, std::int64_t rows, std::int64_t stride,
                 std::int64_t width, double* __restrict sums) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < width; ++i) {
      sums[i] += static_cast<double>(x[row * stride + i]);
    }
  }
}

void sgd(const SgdOptions& o, float gradient_scale, const float* __restrict gradient,
         float* __restrict weight, float* __restrict velocity, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    sgd_update(o, gradient[i] * gradient_scale, weight[i], velocity[i]);
  }
}

void adamw(const AdamWOptions& o, float gradient_scale, const float* __restrict gradient,
           float* __restrict weight, float* __restrict m, float* __restrict v, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    adamw_update(o, gradient[i] * gradient_scale, weight[i], m[i], v[i]);
  }
}

}  // namespace pfc::PFC_ISA
