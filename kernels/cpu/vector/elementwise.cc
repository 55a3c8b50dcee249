// Loops over contiguous memory, which the compiler vectorises for the instruction set.

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/types/bfloat16.h"
#include "kernels/cpu/vector/types/vector.h"

namespace pfc::PFC_ISA {
namespace {

// Calls update(i) for each element. If `operand` is not nullptr, stores the updated weights there,
// rounded to nearest, block by block while they are in the L1 cache.
template <typename Update>
[[gnu::always_inline]] inline void for_each_block(std::int64_t n, const float* weight,
                                                  BFloat16* operand, const Update& update) {
  constexpr std::int64_t kBlock = 1024;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = begin + kBlock < n ? begin + kBlock : n;
    for (std::int64_t i = begin; i < end; ++i) update(i);
    if (operand != nullptr) to_bfloat16(weight + begin, operand + begin, end - begin);
  }
}

}  // namespace

template <typename T>
void normalise_images(const std::uint8_t* x, T* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = static_cast<float>(x[i]) / 127.5f - 1.f;
    if constexpr (sizeof(T) == sizeof(float)) {
      y[i] = value;
    } else {
      y[i] = nearest_bfloat16(value);
    }
  }
}

template <typename T>
void add(const T* a, const T* b, T* y, std::int64_t n) {
  for_each_vector(n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    store_activation<V>(y + i, load_number<V>(a + i) + load_number<V>(b + i));
  });
}

template <typename T>
void add_bias(T* y, const float* bias, std::int64_t rows, std::int64_t n, bool relu6) {
  for (std::int64_t row = 0; row < rows; ++row, y += n) {
    if (relu6) {
      for_each_vector(n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
        const V sum = load_number<V>(y + i) + load<V>(bias + i);
        const V positive = sum < 0.f ? V{} : sum;  // NaN stays NaN
        store_activation<V>(y + i, positive > 6.f ? V{} + 6.f : positive);
      });
    } else {
      for_each_vector(n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
        store_activation<V>(y + i, load_number<V>(y + i) + load<V>(bias + i));
      });
    }
  }
}

template <typename T>
void relu(T* y, std::int64_t n) {
  for_each_vector(n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const V value = load_number<V>(y + i);
    store_activation<V>(y + i, value < 0.f ? V{} : value);  // NaN stays NaN
  });
}

template <typename T>
void relu_backward(const T* y, T* dy, std::int64_t n, float bound) {
  for_each_vector(n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const V result = load_number<V>(y + i);
    const V below = result < bound ? load_number<V>(dy + i) : V{};
    store_activation<V>(dy + i, result > 0.f ? below : V{});
  });
}

template <typename T>
void add_columns(const T* __restrict x, std::int64_t rows, std::int64_t stride, std::int64_t width,
                 double* __restrict sums) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < width; ++i) {
      sums[i] += static_cast<double>(load_number<float>(x + row * stride + i));
    }
  }
}

void sgd(const SgdOptions& o, float gradient_scale, const float* __restrict gradient,
         float* __restrict weight, float* __restrict velocity, BFloat16* __restrict operand,
         std::int64_t n) {
  for_each_block(n, weight, operand, [&](std::int64_t i) PFC_INLINE_LAMBDA {
    sgd_update(o, gradient[i] * gradient_scale, weight[i], velocity[i]);
  });
}

void adamw(const AdamWOptions& o, float gradient_scale, const float* __restrict gradient,
           float* __restrict weight, float* __restrict m, float* __restrict v,
           BFloat16* __restrict operand, std::int64_t n) {
  for_each_block(n, weight, operand, [&](std::int64_t i) PFC_INLINE_LAMBDA {
    adamw_update(o, gradient[i] * gradient_scale, weight[i], m[i], v[i]);
  });
}

template void normalise_images(const std::uint8_t*, float*, std::int64_t);
template void normalise_images(const std::uint8_t*, BFloat16*, std::int64_t);
template void add(const float*, const float*, float*, std::int64_t);
template void add(const BFloat16*, const BFloat16*, BFloat16*, std::int64_t);
template void add_bias(float*, const float*, std::int64_t, std::int64_t, bool);
template void add_bias(BFloat16*, const float*, std::int64_t, std::int64_t, bool);
template void relu(float*, std::int64_t);
template void relu(BFloat16*, std::int64_t);
template void relu_backward(const float*, float*, std::int64_t, float);
template void relu_backward(const BFloat16*, BFloat16*, std::int64_t, float);
template void add_columns(const float*, std::int64_t, std::int64_t, std::int64_t, double*);
template void add_columns(const BFloat16*, std::int64_t, std::int64_t, std::int64_t, double*);

}  // namespace pfc::PFC_ISA
