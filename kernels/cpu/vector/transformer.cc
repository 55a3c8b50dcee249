// Layer norm, and the softmax of attention.

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/types/bfloat16.h"
#include "kernels/cpu/vector/types/exp.h"
#include "kernels/cpu/vector/types/vector.h"

namespace pfc::PFC_ISA {
namespace {

/// A sum in one vector of lanes, and the elements after the last whole vector.
struct LaneSum {
  Vector lanes{};
  float rest = 0;
  [[gnu::always_inline]] void add(Vector v) { lanes += v; }
  [[gnu::always_inline]] void add(float v) { rest += v; }
  [[nodiscard]] float total() const {
    float sum = rest;
    for (std::int64_t i = 0; i < kWidth; ++i) sum += lanes[i];
    return sum;
  }
};

/// Returns the sum of f(i) over [0, n), where f returns a V of values.
template <typename F>
[[gnu::always_inline]] inline float sum_of(std::int64_t n, const F& f) {
  LaneSum sum;
  for_each_vector(n, [&]<typename V>(std::int64_t i)
                         PFC_INLINE_LAMBDA { sum.add(f.template operator()<V>(i)); });
  return sum.total();
}

}  // namespace

template <typename T>
void layer_norm(const LayerNormRows<T>& l) {
  const auto n = static_cast<float>(l.n);
  for (std::int64_t row = 0; row < l.rows; ++row) {
    const float* const x = l.x + row * l.n;
    const float mean =
        sum_of(l.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA { return load<V>(x + i); }) /
        n;
    const float squares = sum_of(l.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      const V centred = load<V>(x + i) - mean;
      return centred * centred;
    });
    const float inverse = 1.f / __builtin_sqrtf(squares / n + l.eps);
    T* const y = l.y + row * l.n;
    for_each_vector(l.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      const V unit = (load<V>(x + i) - mean) * inverse;
      store_activation<V>(y + i, unit * load<V>(l.gamma + i) + load<V>(l.beta + i));
    });
    l.statistics[2 * row] = mean;
    l.statistics[2 * row + 1] = inverse;
  }
}

template <typename T>
void layer_norm_backward(const LayerNormBackwardRows<T>& l) {
  const auto n = static_cast<float>(l.n);
  for (std::int64_t row = 0; row < l.rows; ++row) {
    const float* const x = l.x + row * l.n;
    const T* const dy = l.dy + row * l.n;
    const float mean = l.statistics[2 * row], inverse = l.statistics[2 * row + 1];
    LaneSum sum, along;
    for_each_vector(l.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      const V g = load_number<V>(dy + i) * load<V>(l.gamma + i);
      sum.add(g);
      along.add(g * ((load<V>(x + i) - mean) * inverse));
    });
    const float mean_g = sum.total() / n, mean_along = along.total() / n;
    const float* const add = l.add == nullptr ? nullptr : l.add + row * l.n;
    float* const dx = l.dx + row * l.n;
    for_each_vector(l.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      const V g = load_number<V>(dy + i) * load<V>(l.gamma + i);
      const V unit = (load<V>(x + i) - mean) * inverse;
      const V value = (g - mean_g - unit * mean_along) * inverse;
      store<V>(dx + i, add == nullptr ? value : value + load<V>(add + i));
    });
  }
}

template <typename T>
void layer_norm_sums(const LayerNormColumns<T>& l) {
  const float* __restrict const x = l.x;
  double* __restrict const dgamma = l.dgamma;
  double* __restrict const dbeta = l.dbeta;
  for (std::int64_t row = 0; row < l.rows; ++row) {
    const float mean = l.statistics[2 * row], inverse = l.statistics[2 * row + 1];
    for (std::int64_t i = 0; i < l.width; ++i) {
      const float dy = load_number<float>(l.dy + row * l.n + i);
      dgamma[i] += static_cast<double>(dy * ((x[row * l.n + i] - mean) * inverse));
      dbeta[i] += static_cast<double>(dy);
    }
  }
}

void softmax(const StridedRows& m, float scale) {
  for (std::int64_t row = 0; row < m.rows; ++row) {
    float* const x = m.x + row * m.stride;
    Vector largest = Vector{} + x[0];
    float max = x[0];
    for_each_vector(m.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      const V value = load<V>(x + i);
      if constexpr (sizeof(V) == sizeof(float)) {
        max = value > max ? value : max;
      } else {
        largest = value > largest ? value : largest;
      }
    });
    for (std::int64_t i = 0; i < kWidth; ++i) max = largest[i] > max ? largest[i] : max;
    const float sum = sum_of(m.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      const V value = exp_of_negative<V>((load<V>(x + i) - max) * scale);
      store<V>(x + i, value);
      return value;
    });
    const float inverse = 1.f / sum;
    for_each_vector(m.n, [&]<typename V>(std::int64_t i)
                             PFC_INLINE_LAMBDA { store<V>(x + i, load<V>(x + i) * inverse); });
  }
}

void softmax_backward(const StridedRows& m, const float* y, float scale) {
  for (std::int64_t row = 0; row < m.rows; ++row, y += m.stride) {
    float* const dy = m.x + row * m.stride;
    const float along = sum_of(m.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      return load<V>(dy + i) * load<V>(y + i);
    });
    for_each_vector(m.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      store<V>(dy + i, (load<V>(dy + i) - along) * load<V>(y + i) * scale);
    });
  }
}

template void layer_norm(const LayerNormRows<float>&);
template void layer_norm(const LayerNormRows<BFloat16>&);
template void layer_norm_backward(const LayerNormBackwardRows<float>&);
template void layer_norm_backward(const LayerNormBackwardRows<BFloat16>&);
template void layer_norm_sums(const LayerNormColumns<float>&);
template void layer_norm_sums(const LayerNormColumns<BFloat16>&);

}  // namespace pfc::PFC_ISA
