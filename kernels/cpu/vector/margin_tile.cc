#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/types/exp.h"
#include "kernels/cpu/vector/types/vector.h"

namespace pfc::PFC_ISA {
namespace {

/// Returns the cosine, limited to [-limit, limit]; 0 above the filter's threshold.
template <typename V>
[[gnu::always_inline]] inline V filtered_cosine(const MarginTile& t, V product, float inverse) {
  V cosine = product * inverse;
  cosine = cosine > t.limit ? V{} + t.limit : cosine;
  cosine = cosine < -t.limit ? V{} - t.limit : cosine;
  return cosine > t.threshold ? V{} : cosine;
}

/// Returns what is added to the logits of the tile's class j.
float offset_of(const MarginTile& t, std::int64_t j) {
  return t.offsets == nullptr ? t.offset : t.offsets[j];
}

/// Returns 1 / length of the tile's class j.
float inverse_norm_of(const MarginTile& t, std::int64_t j) {
  return t.inverse_norm == nullptr ? 1.f : t.inverse_norm[j];
}

/// Returns x if class number c is in the sample's range, otherwise `outside`.
template <typename V>
[[gnu::always_inline]] inline V in_range(const MarginTile& t, std::int32_t c, std::int64_t i, V x,
                                         V outside) {
  using Int = typename Bits<V>::Type;
  Int begin, end;
  __builtin_memcpy(&begin, t.range_begin + i, sizeof(begin));
  __builtin_memcpy(&end, t.range_end + i, sizeof(end));
  const V from_begin = begin <= c ? x : outside;
  return end > c ? from_begin : outside;
}

/// Returns exp(-|x|).
template <typename V>
[[gnu::always_inline]] inline V exp_neg_abs(V x) {
  return exp_of_negative<V>(x > 0.f ? -x : x);
}

/// Returns 1 / (1 + exp(-x)). e: exp_neg_abs(x).
template <typename V>
[[gnu::always_inline]] inline V sigmoid(V x, V e) {
  return (x > 0.f ? V{} + 1.f : e) / (e + 1.f);
}

enum class TileKind { kSoftmax, kHard, kBinary };  ///< kHard: the tile has hard_above

/// kRanges: t has ranges. kHard: t has hard_above.
template <bool kRanges, bool kHard>
void logits_of(const MarginTile& t, const float* products, float* logits) {
  for (std::int64_t j = 0; j < t.classes; ++j) {
    const float* row = products + j * t.samples;
    float* out = logits + j * t.samples;
    const float inverse = inverse_norm_of(t, j), offset = offset_of(t, j);
    const auto c = static_cast<std::int32_t>(t.first_class + j);
    for_each_vector(t.samples, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      V cosine = filtered_cosine(t, load<V>(row + i), inverse);
      if constexpr (kHard) {
        cosine = cosine > load<V>(t.hard_above + i) ? cosine * (cosine + t.hardness) : cosine;
      }
      V logit = cosine * t.scale + offset;
      if constexpr (kRanges) logit = in_range<V>(t, c, i, logit, V{} - __builtin_inff());
      store<V>(out + i, logit);
    });
  }
}

/// Computes one class of margin_gradients().
template <bool kRanges, TileKind kKind>
void gradients_of(const MarginTile& t, std::int64_t j, const float* row, const float* max,
                  const float* factor, float* out, float* along) {
  const float inverse = inverse_norm_of(t, j), offset = offset_of(t, j);
  const auto c = static_cast<std::int32_t>(t.first_class + j);
  Vector lanes{};
  float sum = 0;
  for_each_vector(t.samples, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
    const V product = load<V>(row + i);
    V cosine = filtered_cosine(t, product, inverse);
    V slope = V{} + inverse;
    if constexpr (kKind == TileKind::kHard) {
      const V hard_above = load<V>(t.hard_above + i);
      slope = cosine > hard_above ? (cosine + cosine + t.hardness) * inverse : slope;
      cosine = cosine > hard_above ? cosine * (cosine + t.hardness) : cosine;
    }
    V probability;
    if constexpr (kKind == TileKind::kBinary) {
      const V logit = cosine * t.scale + offset;
      probability = sigmoid<V>(logit, exp_neg_abs<V>(logit)) * load<V>(factor + i);
    } else {
      const V above = cosine * t.scale - (load<V>(max + i) - offset);
      // An excluded logit may exceed the largest one by so much that exp() would overflow.
      const V bounded = above > 0.f ? V{} : above;
      probability = exp_of_negative<V>(bounded) * load<V>(factor + i);
    }
    if (t.smoothing != nullptr) probability -= load<V>(t.smoothing + i);
    // The logit of a filtered class is a constant: it is in the sum, but has no gradient.
    V gradient = product * inverse > t.threshold ? V{} : probability * slope;
    if constexpr (kRanges) gradient = in_range<V>(t, c, i, gradient, V{});
    store<V>(out + i, gradient);
    if constexpr (sizeof(V) == sizeof(Vector)) {
      lanes += gradient * product;
    } else {
      sum += gradient * product;
    }
  });
  for (std::int64_t lane = 0; lane < kWidth; ++lane) sum += lanes[lane];
  along[j] = sum * inverse;
}

/// Returns logit / temperature. Limits the cosine to [-1, 1], because rounding may have moved it
/// outside.
template <typename V>
[[gnu::always_inline]] inline V distilled_logit(const DistilledTile& t, V cosine) {
  cosine = cosine > 1.f ? V{} + 1.f : cosine;
  cosine = cosine < -1.f ? V{} - 1.f : cosine;
  return cosine * t.scale;
}

/// Calls f.template operator()<kRanges, kKind>() as the tile needs.
template <typename F>
void for_tile(const MarginTile& t, const F& f) {
  const auto go = [&]<TileKind kKind> {
    t.range_begin != nullptr ? f.template operator()<true, kKind>()
                             : f.template operator()<false, kKind>();
  };
  if (t.binary) return go.template operator()<TileKind::kBinary>();
  t.hard_above != nullptr ? go.template operator()<TileKind::kHard>()
                          : go.template operator()<TileKind::kSoftmax>();
}

}  // namespace

void margin_logits(const MarginTile& t, const float* products, float* logits, float* max) {
  for_tile(t, [&]<bool kRanges, TileKind kKind> {
    logits_of<kRanges, kKind == TileKind::kHard>(t, products, logits);
  });
  for (std::int64_t k = 0; k < t.left_out_count; ++k) logits[t.left_out[k]] = -__builtin_inff();
  for_each_vector(t.samples, [&]<typename V>(std::int64_t i) {
    V largest = V{} - __builtin_inff();
    for (std::int64_t j = 0; j < t.classes; ++j) {
      const V logit = load<V>(logits + j * t.samples + i);
      largest = logit > largest ? logit : largest;
    }
    store<V>(max + i, largest);
  });
}

void margin_exp_sums(const MarginTile& t, const float* logits, const float* max, float* sums) {
  for_each_vector(t.samples, [&]<typename V>(std::int64_t i) {
    const V largest = load<V>(max + i);
    V sum{};
    for (std::int64_t j = 0; j < t.classes; ++j) {
      sum += exp_of_negative<V>(load<V>(logits + j * t.samples + i) - largest);
    }
    store<V>(sums + i, sum);
  });
}

void margin_binary_sums(const MarginTile& t, const float* logits, float* losses,
                        float* probabilities) {
  for_each_vector(t.samples, [&]<typename V>(std::int64_t i) {
    V loss{}, probability{};
    for (std::int64_t j = 0; j < t.classes; ++j) {
      const V logit = load<V>(logits + j * t.samples + i);
      const V e = exp_neg_abs<V>(logit);
      loss += (logit > 0.f ? logit : V{}) + log1p_of_fraction<V>(e);
      probability += sigmoid<V>(logit, e);
    }
    store<V>(losses + i, loss);
    store<V>(probabilities + i, probability);
  });
}

void margin_gradients(const MarginTile& t, float* products, const float* max, const float* factor,
                      float* gradients, float* along) {
  // Excludes the targets: their gradients are computed elsewhere (margin_tile.h).
  for (std::int64_t k = 0; k < t.left_out_count; ++k) products[t.left_out[k]] = 0.f;
  for_tile(t, [&]<bool kRanges, TileKind kKind> {
    for (std::int64_t j = 0; j < t.classes; ++j) {
      const std::int64_t first = j * t.samples;
      gradients_of<kRanges, kKind>(t, j, products + first, max, factor, gradients + first, along);
    }
  });
  for (std::int64_t k = 0; k < t.left_out_count; ++k) gradients[t.left_out[k]] = 0.f;
}

void largest_cosines(const SubCentreTile& t, const float* products, float* cosines,
                     float* winners) {
  for (std::int64_t j = 0; j < t.classes; ++j) {
    const float* const inverse = t.inverse_norm + j * t.sub_centres;
    const float* const rows = products + j * t.sub_centres * t.samples;
    for_each_vector(t.samples, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      V largest = load<V>(rows + i) * inverse[0], winner{};
      for (std::int64_t k = 1; k < t.sub_centres; ++k) {
        const V cosine = load<V>(rows + k * t.samples + i) * inverse[k];
        const auto replaces = (cosine > largest) | (cosine != cosine);
        largest = replaces ? cosine : largest;
        winner = replaces ? V{} + static_cast<float>(k) : winner;
      }
      store<V>(cosines + j * t.samples + i, largest);
      store<V>(winners + j * t.samples + i, winner);
    });
  }
}

void spread_gradients(const SubCentreTile& t, const float* products, const float* d_cosines,
                      const float* winners, float* gradients, float* along) {
  for (std::int64_t row = 0; row < t.classes * t.sub_centres; ++row) {
    const std::int64_t first = row / t.sub_centres * t.samples, place = row * t.samples;
    const auto own = static_cast<float>(row % t.sub_centres);
    const float inverse = t.inverse_norm[row];
    Vector lanes{};
    float sum = 0;
    for_each_vector(t.samples, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      const V product = load<V>(products + place + i);
      const V spread = load<V>(d_cosines + first + i) * inverse;
      const V gradient = load<V>(winners + first + i) == V{} + own ? spread : V{};
      store<V>(gradients + place + i, gradient);
      if constexpr (sizeof(V) == sizeof(Vector)) {
        lanes += gradient * product;
      } else {
        sum += gradient * product;
      }
    });
    for (std::int64_t lane = 0; lane < kWidth; ++lane) sum += lanes[lane];
    along[row] = sum * inverse;
  }
}

void distilled_sums(const DistilledTile& t, const float* products, const float* cosines,
                    float* sums) {
  for_each_vector(t.samples, [&]<typename V>(std::int64_t i) {
    V network{}, teacher{}, difference{};
    for (std::int64_t j = 0; j < t.classes; ++j) {
      const std::int64_t at = j * t.samples + i;
      const V a = distilled_logit<V>(t, load<V>(products + at) * t.inverse_norm[j]);
      const V b = distilled_logit<V>(t, load<V>(cosines + at));
      const V e = exp_of_negative<V>(b);
      network += exp_of_negative<V>(a);
      teacher += e;
      difference += e * (b - a);
    }
    store<V>(sums + i, network);
    store<V>(sums + t.samples + i, teacher);
    store<V>(sums + 2 * t.samples + i, difference);
  });
}

void distilled_gradients(const DistilledTile& t, const float* products, float* cosines,
                         float* along) {
  for (std::int64_t j = 0; j < t.classes; ++j) {
    const float* const row = products + j * t.samples;
    float* const out = cosines + j * t.samples;
    const float inverse = t.inverse_norm[j];
    Vector lanes{};
    float sum = 0;
    for_each_vector(t.samples, [&]<typename V>(std::int64_t i) PFC_INLINE_LAMBDA {
      const V product = load<V>(row + i);
      const V a = distilled_logit<V>(t, product * inverse);
      const V b = distilled_logit<V>(t, load<V>(out + i));
      const V gradient = (exp_of_negative<V>(a) * load<V>(t.network_factor + i) -
                          exp_of_negative<V>(b) * load<V>(t.teacher_factor + i)) *
                         inverse;
      store<V>(out + i, gradient);
      if constexpr (sizeof(V) == sizeof(Vector)) {
        lanes += gradient * product;
      } else {
        sum += gradient * product;
      }
    });
    for (std::int64_t lane = 0; lane < kWidth; ++lane) sum += lanes[lane];
    along[j] = sum * inverse;
  }
}

}  // namespace pfc::PFC_ISA
