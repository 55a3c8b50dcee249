// Updates of one row of class centres.

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/types/bfloat16.h"
#include "kernels/cpu/vector/types/vector.h"

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

/// Returns the sum of squares of a row. of.template operator()<V>(i) returns its elements from i on
/// as a V. Sums in float32. If that overflows or loses digits, sums again in float64 from
/// element(i), which returns the same numbers one by one.
template <typename Of, typename Element>
[[gnu::always_inline]] inline double sum_of_row(std::int64_t n, const Of& of,
                                                const Element& element) {
  Vector squares{};
  float rest = 0;
  for_each_vector(n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const V w = of.template operator()<V>(i);
    if constexpr (sizeof(V) == sizeof(float)) {
      rest += w * w;
    } else {
      squares += w * w;
    }
  });
  constexpr float kTiny = 1e-30f, kHuge = 1e+30f;
  const float sum = rest + lane_sum(squares);
  if (sum > kTiny && sum < kHuge) return static_cast<double>(sum);
  double exact = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = static_cast<double>(element(i));
    exact += value * value;
  }
  return exact;
}

/// Returns the sum of squares of a row whose elements `move` computes, stores and returns.
template <typename Number, typename Move>
[[gnu::always_inline]] inline double move_row(const Number* weight, std::int64_t n,
                                              const Move& move) {
  return sum_of_row(n, move, [weight](std::int64_t i) { return load_number<float>(weight + i); });
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

/// Centre, SGD's velocity or AdamW's first moment, and AdamW's second moment.
template <typename V>
struct State {
  V w, v, second;
};

/// Returns the state from element i on, after missed updates. Reads second only for AdamW.
template <typename V, bool kSecond, bool kMissed, typename Weight, typename Momentum>
[[gnu::always_inline]] inline State<V> load_state(const CatchUp& missed, const Weight* weight,
                                                  const Momentum* momentum, const Momentum* second,
                                                  std::int64_t i) {
  const V w = load_number<V>(weight + i);
  const V v = load_number<V>(momentum + i);
  if constexpr (!kSecond) {
    if constexpr (!kMissed) return {w, v, V{}};
    return {missed.ww * w + missed.wv * v, missed.vw * w + missed.vv * v, V{}};
  } else {
    const V s = load_number<V>(second + i);
    if constexpr (!kMissed) return {w, v, s};
    const V x = v / (square_root<V>(s) + missed.eps);
    return {missed.ww * w + missed.wv * x, missed.vv * v, missed.second * s};
  }
}

/// Returns the gradient without its component along the centre.
template <typename V>
[[gnu::always_inline]] inline V across(const CentreRow& row, std::int64_t i, V weight) {
  return load<V>(row.gradient + i) - weight * row.inverse_norm * row.along;
}

template <bool kMissed, typename Weight, typename Momentum>
double sgd_row(const SgdOptions& o, const CentreRow& row) {
  auto* const weight = static_cast<Weight*>(row.weight);
  auto* const momentum = static_cast<Momentum*>(row.momentum);
  const CatchUp missed = kMissed ? *row.missed : CatchUp();
  return move_row(weight, row.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const State<V> now = load_state<V, false, kMissed>(missed, weight, momentum, momentum, i);
    const V g = across<V>(row, i, now.w) + o.weight_decay * now.w;
    const V v = o.momentum * now.v + g;
    // The stored momentum is rounded; the step uses the unrounded momentum.
    const auto random = random_bits<V>(row.key, i);
    store_number<V>(momentum + i, v, random >> 16);
    return store_number<V>(weight + i, now.w - o.lr * v, random);
  });
}

template <bool kMissed, typename Weight, typename Momentum>
double adamw_row(const AdamWOptions& o, const CentreRow& row) {
  auto* const weight = static_cast<Weight*>(row.weight);
  auto* const momentum = static_cast<Momentum*>(row.momentum);
  auto* const second = static_cast<Momentum*>(row.second);
  const CatchUp missed = kMissed ? *row.missed : CatchUp();
  const float decay = 1.f - o.lr * o.weight_decay;
  const float step = o.lr / o.bias_correction1;
  return move_row(weight, row.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const State<V> now = load_state<V, true, kMissed>(missed, weight, momentum, second, i);
    const V g = across<V>(row, i, now.w);
    const V m = o.beta1 * now.v + (1.f - o.beta1) * g;
    const V v = o.beta2 * now.second + (1.f - o.beta2) * g * g;
    const auto random = random_bits<V>(row.key, i);
    store_number<V>(momentum + i, m, random >> 16);
    store_number<V>(second + i, v, random >> 16);
    const V denominator = square_root<V>(v / o.bias_correction2) + o.eps;
    return store_number<V>(weight + i, now.w * decay - step * m / denominator, random);
  });
}

template <bool kSecond, typename Weight, typename Momentum>
double settle_row(const CentreRow& row) {
  auto* const weight = static_cast<Weight*>(row.weight);
  auto* const momentum = static_cast<Momentum*>(row.momentum);
  auto* const second = static_cast<Momentum*>(row.second);
  const CatchUp missed = *row.missed;
  return move_row(weight, row.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const State<V> now = load_state<V, kSecond, true>(missed, weight, momentum, second, i);
    const auto random = random_bits<V>(row.key, i);
    store_number<V>(momentum + i, now.v, random >> 16);
    if constexpr (kSecond) store_number<V>(second + i, now.second, random >> 16);
    return store_number<V>(weight + i, now.w, random);
  });
}

template <bool kSecond, typename Weight, typename Momentum>
double caught_up_row(const CaughtUpCentre& c) {
  const auto* const weight = static_cast<const Weight*>(c.weight);
  const auto* const momentum = static_cast<const Momentum*>(c.momentum);
  const auto* const second = static_cast<const Momentum*>(c.second);
  const CatchUp missed = c.missed;
  const auto element = [&](std::int64_t i) {
    return load_state<float, kSecond, true>(missed, weight, momentum, second, i).w;
  };
  float* const floats = c.floats;
  if (floats != nullptr) {
    const auto copy = [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      const V w = load_state<V, kSecond, true>(missed, weight, momentum, second, i).w;
      store<V>(floats + i, w);
      return w;
    };
    return sum_of_row(c.n, copy, element);
  }
  BFloat16* const halves = c.halves;
  const auto copy = [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const V w = load_state<V, kSecond, true>(missed, weight, momentum, second, i).w;
    store_nearest<V>(halves + i, w);
    return w;
  };
  return sum_of_row(c.n, copy, element);
}

/// Calls update.operator()<Weight, Momentum>() with the types of a precision.
template <typename Update>
auto with_types(CentrePrecision precision, const Update& update) {
  switch (precision) {
    case CentrePrecision::kFp32:
      return update.template operator()<float, float>();
    case CentrePrecision::kBf16Momentum:
      return update.template operator()<float, BFloat16>();
    default:
      return update.template operator()<BFloat16, BFloat16>();
  }
}

template <bool kSecond, bool kMissed, typename Weight, typename Momentum>
void add_across(const CentreRow& row, float* sum) {
  const auto* const weight = static_cast<const Weight*>(row.weight);
  const auto* const momentum = static_cast<const Momentum*>(row.momentum);
  const auto* const second = static_cast<const Momentum*>(row.second);
  const CatchUp missed = kMissed ? *row.missed : CatchUp();
  for_each_vector(row.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const V w = load_state<V, kSecond, kMissed>(missed, weight, momentum, second, i).w;
    store<V>(sum + i, load<V>(sum + i) + across<V>(row, i, w));
  });
}

}  // namespace

double centre_sgd(CentrePrecision precision, const SgdOptions& o, const CentreRow& row) {
  return with_types(precision, [&]<typename W, typename M> {
    return row.missed != nullptr ? sgd_row<true, W, M>(o, row) : sgd_row<false, W, M>(o, row);
  });
}

double centre_adamw(CentrePrecision precision, const AdamWOptions& o, const CentreRow& row) {
  return with_types(precision, [&]<typename W, typename M> {
    return row.missed != nullptr ? adamw_row<true, W, M>(o, row) : adamw_row<false, W, M>(o, row);
  });
}

double centre_squares(CentrePrecision precision, const void* weight, std::int64_t n) {
  const auto of = [n](const auto* w) {
    return move_row(
        w, n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA { return load_number<V>(w + i); });
  };
  return precision == CentrePrecision::kBf16 ? of(static_cast<const BFloat16*>(weight))
                                             : of(static_cast<const float*>(weight));
}

double centre_caught_up(CentrePrecision precision, const CaughtUpCentre& centre) {
  return with_types(precision, [&]<typename W, typename M> {
    return centre.second != nullptr ? caught_up_row<true, W, M>(centre)
                                    : caught_up_row<false, W, M>(centre);
  });
}

double centre_settle(CentrePrecision precision, const CentreRow& row) {
  return with_types(precision, [&]<typename W, typename M> {
    return row.second != nullptr ? settle_row<true, W, M>(row) : settle_row<false, W, M>(row);
  });
}

void add_centre_gradient(CentrePrecision precision, const CentreRow& row, float* sum) {
  with_types(precision, [&]<typename W, typename M> {
    if (row.missed == nullptr) return add_across<false, false, W, M>(row, sum);
    row.second != nullptr ? add_across<true, true, W, M>(row, sum)
                          : add_across<false, true, W, M>(row, sum);
  });
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
