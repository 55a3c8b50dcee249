// Updates of one row of class centres.

#include <type_traits>

#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/types/bfloat16.h"
#include "kernels/cpu/vector/types/one_byte.h"
#include "kernels/cpu/vector/types/vector.h"

namespace pfc::PFC_ISA {

/// Momentum of rows that have none: zeros, which are never stored.
struct NoMomentum {
  NoMomentum operator+(std::int64_t /*i*/) const { return {}; }
};

template <typename V>
[[gnu::always_inline]] inline V load_number(NoMomentum /*unused*/) {
  return V{};
}

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

template <typename Number>
constexpr bool kIsOneByte = false;
template <>
constexpr bool kIsOneByte<Int8Numbers> = true;
template <>
constexpr bool kIsOneByte<Fp8Numbers> = true;

template <typename Number>
constexpr bool kIsStored = true;
template <>
constexpr bool kIsStored<NoMomentum> = false;

/// Returns a row's first number in the form that load_number() takes. scale: of one-byte numbers.
template <typename Number>
auto first_number(const void* numbers, const float* scale) {
  if constexpr (!kIsStored<Number>) {
    return NoMomentum{};
  } else if constexpr (kIsOneByte<Number>) {
    return Codes<Number>{static_cast<const std::uint8_t*>(numbers), *scale};
  } else {
    return static_cast<const Number*>(numbers);
  }
}

/// Centre, SGD's velocity or AdamW's first moment, and AdamW's second moment.
template <typename V>
struct State {
  V w, v, second;
};

/// A stored row. kSecond: of AdamW. kMissed: it has missed updates.
template <bool kHasSecond, bool kMissed, typename WeightNumber, typename MomentumNumber>
class StoredRow {
 public:
  using Weight = WeightNumber;
  using Momentum = MomentumNumber;
  static constexpr bool kSecond = kHasSecond;

  /// Row: CentreRow or CaughtUpCentre.
  template <typename Row>
  explicit StoredRow(const Row& row)
      : weight_(first_number<Weight>(row.weight, row.weight_scale)),
        momentum_(first_number<Momentum>(row.momentum, row.momentum_scale)),
        second_(first_number<Momentum>(kSecond ? row.second : row.momentum, row.momentum_scale)),
        missed_(kMissed ? *row.missed : CatchUp()) {}

  /// Returns the state from element i on, after missed updates.
  template <typename V>
  [[gnu::always_inline]] State<V> load(std::int64_t i) const {
    const V w = load_number<V>(weight_ + i);
    const V v = load_number<V>(momentum_ + i);
    if constexpr (!kSecond) {
      if constexpr (!kMissed) return {w, v, V{}};
      return {missed_.ww * w + missed_.wv * v, missed_.vw * w + missed_.vv * v, V{}};
    } else {
      const V s = load_number<V>(second_ + i);
      if constexpr (!kMissed) return {w, v, s};
      const V x = v / (square_root<V>(s) + missed_.eps);
      return {missed_.ww * w + missed_.wv * x, missed_.vv * v, missed_.second * s};
    }
  }

 private:
  const decltype(first_number<Weight>(nullptr, nullptr)) weight_;
  const decltype(first_number<Momentum>(nullptr, nullptr)) momentum_, second_;
  const CatchUp missed_;
};

/// Returns the gradient without its component along the centre.
template <typename V>
[[gnu::always_inline]] inline V across(const CentreRow& row, std::int64_t i, V weight) {
  return load<V>(row.gradient + i) - weight * row.inverse_norm * row.along;
}

/// Same as store_row() for one-byte numbers: first computes all numbers, then their scales and
/// codes.
template <typename Weight, typename Momentum, typename Next>
double store_one_byte_row(const CentreRow& row, const Next& next) {
  // Centres and momentum of 16 bits share the random bits of an element; those of one byte do not.
  constexpr std::int64_t kMomentumElement = std::int64_t{1} << 31;
  float *const weight = row.new_weight, *const momentum = row.new_momentum;
  LargestBits largest, largest_momentum;
  for_each_vector(row.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const State<V> now = next.template operator()<V>(i);
    store<V>(weight + i, now.w);
    largest.add<V>(now.w);
    if constexpr (kIsStored<Momentum>) {
      store<V>(momentum + i, now.v);
      largest_momentum.add<V>(now.v);
    }
  });
  const auto write = [&](OneByteFormat format, void* codes, std::int64_t first_element,
                         const LargestBits& measured, float* x) {
    return write_measured_row(
        {.format = format, .codes = static_cast<std::uint8_t*>(codes), .n = row.n},
        {.stochastic = true, .key = row.key, .first_element = first_element}, measured.bits(), x);
  };
  *row.weight_scale = write(Weight::kFormat, row.weight, 0, largest, weight);
  if constexpr (kIsStored<Momentum>) {
    *row.momentum_scale =
        write(Momentum::kFormat, row.momentum, kMomentumElement, largest_momentum, momentum);
  }
  return centre_squares(CentrePrecision::kFp32, {.n = row.n, .weight = weight});
}

/// Stores the new numbers of a row, and returns its new squared length. next.template
/// operator()<V>(i) returns the numbers from element i on. They are rounded here.
template <typename Row, typename Next>
double store_row(const CentreRow& row, const Next& next) {
  using Weight = typename Row::Weight;
  using Momentum = typename Row::Momentum;
  if constexpr (kIsOneByte<Weight>) {
    return store_one_byte_row<Weight, Momentum>(row, next);
  } else {
    auto* const weight = static_cast<Weight*>(row.weight);
    auto* const momentum = static_cast<Momentum*>(row.momentum);
    auto* const second = static_cast<Momentum*>(row.second);
    return move_row(weight, row.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      const State<V> now = next.template operator()<V>(i);
      const auto random = random_bits<V>(row.key, i);
      if constexpr (kIsStored<Momentum>) store_number<V>(momentum + i, now.v, random >> 16);
      if constexpr (Row::kSecond) store_number<V>(second + i, now.second, random >> 16);
      return store_number<V>(weight + i, now.w, random);
    });
  }
}

template <typename Row>
double sgd_row(const SgdOptions& o, const CentreRow& row, const Row stored) {
  return store_row<Row>(row, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const State<V> now = stored.template load<V>(i);
    const V g = across<V>(row, i, now.w) + o.weight_decay * now.w;
    const V v = o.momentum * now.v + g;
    // The stored momentum is rounded; the step uses the unrounded momentum.
    return State<V>{now.w - o.lr * v, v, V{}};
  });
}

template <typename Row>
double adamw_row(const AdamWOptions& o, const CentreRow& row, const Row stored) {
  const float decay = 1.f - o.lr * o.weight_decay;
  const float step = o.lr / o.bias_correction1;
  return store_row<Row>(row, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const State<V> now = stored.template load<V>(i);
    const V g = across<V>(row, i, now.w);
    const V m = o.beta1 * now.v + (1.f - o.beta1) * g;
    const V v = o.beta2 * now.second + (1.f - o.beta2) * g * g;
    const V denominator = square_root<V>(v / o.bias_correction2) + o.eps;
    return State<V>{now.w * decay - step * m / denominator, m, v};
  });
}

template <typename Row>
double caught_up_row(const CaughtUpCentre& c, const Row stored) {
  const auto element = [&](std::int64_t i) { return stored.template load<float>(i).w; };
  float* const floats = c.floats;
  if (floats != nullptr) {
    const auto copy = [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      const V w = stored.template load<V>(i).w;
      store<V>(floats + i, w);
      return w;
    };
    return sum_of_row(c.n, copy, element);
  }
  BFloat16* const halves = c.halves;
  const auto copy = [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const V w = stored.template load<V>(i).w;
    store_nearest<V>(halves + i, w);
    return w;
  };
  return sum_of_row(c.n, copy, element);
}

/// Calls f.template operator()<Weight, Momentum>() with the types of a row's numbers.
template <bool kSecond, typename F>
auto with_types(CentrePrecision precision, bool momentum, const F& f) {
  const auto with = [&]<typename Weight, typename Momentum> {
    if constexpr (!kSecond) {
      if (!momentum) return f.template operator()<Weight, NoMomentum>();
    }
    return f.template operator()<Weight, Momentum>();
  };
  switch (precision) {
    case CentrePrecision::kFp32:
      return with.template operator()<float, float>();
    case CentrePrecision::kBf16Momentum:
      return with.template operator()<float, BFloat16>();
    case CentrePrecision::kInt8:
      if constexpr (!kSecond) return with.template operator()<Int8Numbers, Int8Numbers>();
      [[fallthrough]];
    case CentrePrecision::kFp8:
      if constexpr (!kSecond) return with.template operator()<Fp8Numbers, Int8Numbers>();
      [[fallthrough]];  // AdamW has no one-byte numbers
    default:
      return with.template operator()<BFloat16, BFloat16>();
  }
}

/// Calls f(StoredRow) for a row. Row: CentreRow or CaughtUpCentre.
template <bool kSecond, typename Row, typename F>
auto with_stored(CentrePrecision precision, const Row& row, const F& f) {
  return with_types<kSecond>(precision, row.momentum != nullptr, [&]<typename W, typename M> {
    return row.missed != nullptr ? f(StoredRow<kSecond, true, W, M>(row))
                                 : f(StoredRow<kSecond, false, W, M>(row));
  });
}

/// Same, but finds out from the row whether it is one of SGD or of AdamW.
template <typename Row, typename F>
auto with_stored(CentrePrecision precision, const Row& row, const F& f) {
  return row.second != nullptr ? with_stored<true>(precision, row, f)
                               : with_stored<false>(precision, row, f);
}

}  // namespace

double centre_sgd(CentrePrecision precision, const SgdOptions& o, const CentreRow& row) {
  return with_stored<false>(precision, row,
                            [&](const auto& stored) { return sgd_row(o, row, stored); });
}

double centre_adamw(CentrePrecision precision, const AdamWOptions& o, const CentreRow& row) {
  return with_stored<true>(precision, row,
                           [&](const auto& stored) { return adamw_row(o, row, stored); });
}

double centre_squares(CentrePrecision precision, const CentreRow& row) {
  return with_types<false>(precision, false, [&]<typename Weight, typename> {
    const auto weight = first_number<Weight>(row.weight, row.weight_scale);
    const auto of = [&]<typename V>(std::int64_t i)
                        PFC_INLINE_LAMBDA { return load_number<V>(weight + i); };
    return sum_of_row(row.n, of, [&](std::int64_t i) { return load_number<float>(weight + i); });
  });
}

double centre_caught_up(CentrePrecision precision, const CaughtUpCentre& centre) {
  return with_stored(precision, centre,
                     [&](const auto& stored) { return caught_up_row(centre, stored); });
}

double centre_settle(CentrePrecision precision, const CentreRow& row) {
  return with_stored(precision, row, [&](const auto stored) {
    return store_row<std::remove_const_t<decltype(stored)>>(
        row,
        [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA { return stored.template load<V>(i); });
  });
}

void add_centre_gradient(CentrePrecision precision, const CentreRow& row, float* sum) {
  with_stored(precision, row, [&](const auto stored) {
    for_each_vector(row.n, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      const V w = stored.template load<V>(i).w;
      store<V>(sum + i, load<V>(sum + i) + across<V>(row, i, w));
    });
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
