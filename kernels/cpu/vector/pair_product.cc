// Sums of outer products of bfloat16 rows, for the gradient of convolution weights. The
// instruction adds two products at once, so pixels are first packed in pairs.

#include "kernels/cpu/vector/tile_sums.h"
#include "kernels/cpu/vector/types/bfloat16.h"

namespace pfc::PFC_ISA {
namespace {

static_assert(kPairVectors % (kTileVectors * kWidth) == 0 && kPairBroadcasts == kTileBroadcasts);

[[gnu::always_inline]] inline float lower(BFloat16Pair pair) {
  return float_of(static_cast<BFloat16>(pair & 0xffffu));
}
[[gnu::always_inline]] inline float upper(BFloat16Pair pair) {
  return float_of(static_cast<BFloat16>(pair >> 16));
}

template <typename V>
struct PairsOf;
template <>
struct PairsOf<float> {
  using Type = BFloat16Pair;
};
template <>
struct PairsOf<Vector> {
  using Type = Words;
};

struct Pairs {
  template <typename V>
  [[gnu::always_inline]] static typename PairsOf<V>::Type load(const BFloat16Pair* p) {
    typename PairsOf<V>::Type pairs;
    __builtin_memcpy(&pairs, p, sizeof(pairs));
    return pairs;
  }
  // Returns sums + the two products of each pair with `broadcast`.
  [[gnu::always_inline]] static float plus_products(float sum, BFloat16Pair x,
                                                    BFloat16Pair broadcast) {
    return sum + lower(x) * lower(broadcast) + upper(x) * upper(broadcast);
  }
  [[gnu::always_inline]] static Vector plus_products(Vector sums, Words x, BFloat16Pair broadcast) {
#ifdef __AVX512BF16__
    return reinterpret_cast<Vector>(
        _mm512_dpbf16_ps(reinterpret_cast<__m512>(sums), reinterpret_cast<__m512bh>(x),
                         reinterpret_cast<__m512bh>(Words{} + broadcast)));
#else
    sums += reinterpret_cast<Vector>(x << 16) * lower(broadcast);
    return sums + reinterpret_cast<Vector>(x & 0xffff0000u) * upper(broadcast);
#endif
  }
};

#ifdef __AVX512BW__
// Loads as many channels as a tile has broadcasts: too few for the compiler to vectorise.
[[gnu::always_inline]] inline __m256i load_few(const BFloat16* p) {
  constexpr __mmask8 kFew = (1u << kPairBroadcasts) - 1u;
  if (p == nullptr) return _mm256_setzero_si256();
  return _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(kFew, p));
}
[[gnu::always_inline]] inline void pair_few_up(const BFloat16* a, const BFloat16* b,
                                               BFloat16Pair* pairs) {
  constexpr __mmask8 kFew = (1u << kPairBroadcasts) - 1u;
  const __m256i upper_halves = _mm256_slli_epi32(load_few(b), 16);
  _mm256_mask_storeu_epi32(pairs, kFew, _mm256_or_si256(load_few(a), upper_halves));
}
#endif

// Packs the channels of two pixels in pairs. A null pixel counts as zeros.
void pair_up(const BFloat16* __restrict a, const BFloat16* __restrict b,
             BFloat16Pair* __restrict pairs, std::int64_t n) {
#ifdef __AVX512BW__
  if (n == kPairBroadcasts) return pair_few_up(a, b, pairs);
#endif
  if (a != nullptr && b != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) {
      pairs[i] = a[i] | static_cast<BFloat16Pair>(b[i]) << 16;
    }
  } else if (a != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) pairs[i] = a[i];
  } else if (b != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) pairs[i] = static_cast<BFloat16Pair>(b[i]) << 16;
  } else {
    for (std::int64_t i = 0; i < n; ++i) pairs[i] = 0;
  }
}

}  // namespace

void pack_pairs(const PackedPairs& p) {
  const auto pixel = [&](std::int64_t at) {
    return at >= 0 && at < p.pixels ? p.row + at * p.pixel_stride : nullptr;
  };
  for (std::int64_t i = 0; i < p.count; ++i) {
    const BFloat16* const a = pixel(p.first + i * p.step);
    const BFloat16* const b = pixel(p.first + i * p.step + p.gap);
    BFloat16Pair* pairs = p.pairs + i * p.panel;
    for (std::int64_t c = 0; c < p.channels; c += p.panel, pairs += p.panel_stride) {
      const std::int64_t n = p.channels - c < p.panel ? p.channels - c : p.panel;
      pair_up(a == nullptr ? a : a + c, b == nullptr ? b : b + c, pairs, n);
    }
  }
}

void pair_product(const PairProduct& p) { sum_products<Pairs>(p); }

}  // namespace pfc::PFC_ISA
