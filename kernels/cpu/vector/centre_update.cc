// One row of the class centres: what its gradient does to it.

#include "kernels/cpu/vector/bfloat16.h"
#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/vector.h"

namespace pfc::PFC_ISA {
namespace {

template <typename V>
[[gnu::always_inline]] inline float lane_sum(V v) {
  if constexpr (sizeof(V) == sizeof(float)) {
    return v;
  } else {
    float sum = 0;
    for (std::int64_t lane = 0; lane < kWidth; ++lane) sum += v[lane];
    return sum;
  }
}

template <typename Number>
double exact_sum_of_squares(const Number* x, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = static_cast<double>(load_number<float>(x + i));
    sum += value * value;
  }
  return sum;
}

/// Squares in float32 where they neither overflow nor lose digits, in float64 else.
template <typename Number>
double safe_sum_of_squares(float sum, const Number* x, std::int64_t n) {
  constexpr float kTiny = 1e-30f, kHuge = 1e+30f;
  return sum > kTiny && sum < kHuge ? static_cast<double>(sum) : exact_sum_of_squares(x, n);
}

/// Calls move.template operator()<V>(i) for the row's vectors; it moves the elements from i on and
/// returns the new weights. The sum of their squares.
template <typename Number, typename Move>
[[gnu::always_inline]] inline double move_row(const Number* weight, std::int64_t n,
                                              const Move& move) {
  Vector squares{};
  float rest = 0;
  for_each_vector(n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const V w = move.template operator()<V>(i);
    if constexpr (sizeof(V) == sizeof(float)) {
      rest += w * w;
    } else {
      squares += w * w;
    }
  });
  return safe_sum_of_squares(rest + lane_sum(squares), weight, n);
}

/// The part of the gradient across the centre: what normalising it lets through.
template <typename V>
[[gnu::always_inline]] inline V across(const CentreRow& row, std::int64_t i, V weight) {
  return load<V>(row.gradient + i) - weight * row.inverse_norm * row.along;
}

template <typename Weight, typename Momentum>
double sgd_row(const SgdOptions& o, const CentreRow& row) {
  auto* const weight = static_cast<Weight*>(row.weight);
  auto* const momentum = static_cast<Momentum*>(row.momentum);
  return move_row(weight, row.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const V w = load_number<V>(weight + i);
    const V g = across<V>(row, i, w) + o.weight_decay * w;
    const V v = o.momentum * load_number<V>(momentum + i) + g;
    // The momentum that is kept is rounded; the step is made with the one that is not.
    const auto random = random_bits<V>(row.key, i);
    store_number<V>(momentum + i, v, random >> 16);
    return store_number<V>(weight + i, w - o.lr * v, random);
  });
}

template <typename V>
[[gnu::always_inline]] inline V square_root(V x) {
  if constexpr (sizeof(V) == sizeof(float)) {
    return __builtin_sqrtf(x);
  } else {
    for (std::int64_t lane = 0; lane < kWidth; ++lane) x[lane] = __builtin_sqrtf(x[lane]);
    return x;
  }
}

template <typename Weight, typename Momentum>
double adamw_row(const AdamWOptions& o, const CentreRow& row) {
  auto* const weight = static_cast<Weight*>(row.weight);
  auto* const momentum = static_cast<Momentum*>(row.momentum);
  auto* const second = static_cast<Momentum*>(row.second);
  const float decay = 1.f - o.lr * o.weight_decay;
  const float step = o.lr / o.bias_correction1;
  return move_row(weight, row.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const V w = load_number<V>(weight + i);
    const V g = across<V>(row, i, w);
    const V m = o.beta1 * load_number<V>(momentum + i) + (1.f - o.beta1) * g;
    const V v = o.beta2 * load_number<V>(second + i) + (1.f - o.beta2) * g * g;
    const auto random = random_bits<V>(row.key, i);
    store_number<V>(momentum + i, m, random >> 16);
    store_number<V>(second + i, v, random >> 16);
    const V denominator = square_root<V>(v / o.bias_correction2) + o.eps;
    return store_number<V>(weight + i, w * decay - step * m / denominator, random);
  });
}

/// update.operator()<Weight, Momentum>() with the types that a precision means.
template <typename Update>
double with_types(CentrePrecision precision, const Update& update) {
  switch (precision) {
    case CentrePrecision::kFp32:
      return update.template operator()<float, float>();
    case CentrePrecision::kBf16Momentum:
      return update.template operator()<float, BFloat16>();
    default:
      return update.template operator()<BFloat16, BFloat16>();
  }
}

}  // namespace

double centre_sgd(CentrePrecision precision, const SgdOptions& o, const CentreRow& row) {
  return with_types(precision, [&]<typename W, typename M> { return sgd_row<W, M>(o, row); });
}

double centre_adamw(CentrePrecision precision, const AdamWOptions& o, const CentreRow& row) {
  return with_types(precision, [&]<typename W, typename M> { return adamw_row<W, M>(o, row); });
}

double centre_squares(CentrePrecision precision, const void* weight, std::int64_t n) {
  const auto of = [n](const auto* w) {
    return move_row(
        w, n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA { return load_number<V>(w + i); });
  };
  return precision == CentrePrecision::kBf16 ? of(static_cast<const BFloat16*>(weight))
                                             : of(static_cast<const float*>(weight));
}

void add_centre_gradient(CentrePrecision precision, const CentreRow& row, float* sum) {
  const auto add = [&](const auto* w) {
    for_each_vector(row.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      store<V>(sum + i, load<V>(sum + i) + across<V>(row, i, load_number<V>(w + i)));
    });
  };
  if (precision == CentrePrecision::kBf16) {
    add(static_cast<const BFloat16*>(row.weight));
  } else {
    add(static_cast<const float*>(row.weight));
  }
}

void to_float(const BFloat16* x, float* y, std::int64_t n) {
  for_each_vector(n, [&]<typename V>(std::int64_t i)
                         PFC_INLINE_LAMBDA { store<V>(y + i, load_number<V>(x + i)); });
}

void to_bfloat16(const float* x, BFloat16* y, std::int64_t n) {
  for_each_vector(n, [&]<typename V>(std::int64_t i)
                         PFC_INLINE_LAMBDA { store_nearest<V>(y + i, load<V>(x + i)); });
}

}  // namespace pfc::PFC_ISA
