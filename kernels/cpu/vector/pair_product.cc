// Sums of outer products of rows of bfloat16 numbers, for the gradient of convolution weights. The
// instruction adds two products at once, so pixels are packed in pairs first.

#include "kernels/cpu/vector/bfloat16.h"
#include "kernels/cpu/vector/isa.h"
#include "kernels/cpu/vector/vector.h"

namespace pfc::PFC_ISA {
namespace {

// The sums of a tile stay in registers. They begin at zero and are added to c at the end, so that a
// call's products are summed apart from those of the calls before.
constexpr int kTileVectors = PFC_VECTOR_BYTES == 64 ? 4 : 2;
static_assert(kPairVectors % (kTileVectors * kWidth) == 0);

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

// sums + the two products of each pair with `broadcast`.
[[gnu::always_inline]] inline float plus_products(float sum, BFloat16Pair x,
                                                  BFloat16Pair broadcast) {
  return sum + lower(x) * lower(broadcast) + upper(x) * upper(broadcast);
}
[[gnu::always_inline]] inline Vector plus_products(Vector sums, Words x, BFloat16Pair broadcast) {
#ifdef __AVX512BF16__
  return reinterpret_cast<Vector>(
      _mm512_dpbf16_ps(reinterpret_cast<__m512>(sums), reinterpret_cast<__m512bh>(x),
                       reinterpret_cast<__m512bh>(Words{} + broadcast)));
#else
  sums += reinterpret_cast<Vector>(x << 16) * lower(broadcast);
  return sums + reinterpret_cast<Vector>(x & 0xffff0000u) * upper(broadcast);
#endif
}

template <typename V, int kVectors, int kBroadcasts>
void tile(const PairProduct& p, std::int64_t v0, std::int64_t b0) {
  using Pairs = typename PairsOf<V>::Type;
  // NOLINTNEXTLINE(bugprone-sizeof-expression): V may be float itself
  constexpr std::int64_t kStep = sizeof(V) / sizeof(float);
  V sums[kBroadcasts][kVectors];
  for (int b = 0; b < kBroadcasts; ++b) {
    for (int v = 0; v < kVectors; ++v) sums[b][v] = V{};
  }
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const BFloat16Pair* vectors = p.vector_rows[row] + v0;
    const BFloat16Pair* broadcasts = p.broadcast_rows[row] + b0;
    for (std::int64_t k = 0; k < p.length; ++k) {
      Pairs x[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        __builtin_memcpy(&x[v], vectors + v * kStep, sizeof(Pairs));
      }
      for (int b = 0; b < kBroadcasts; ++b) {
        for (int v = 0; v < kVectors; ++v) {
          sums[b][v] = plus_products(sums[b][v], x[v], broadcasts[b]);
        }
      }
      vectors += p.vector_step;
      broadcasts += p.broadcast_step;
    }
  }
  float* const c = p.c + b0 * p.c_stride + v0;
  for (int b = 0; b < kBroadcasts; ++b) {
    for (int v = 0; v < kVectors; ++v) {
      float* const to = c + b * p.c_stride + v * kStep;
      store<V>(to, load<V>(to) + sums[b][v]);
    }
  }
}

template <typename V, int kVectors>
void panel(const PairProduct& p, std::int64_t v0) {
  std::int64_t b = 0;
  for (; b + kPairBroadcasts <= p.broadcasts; b += kPairBroadcasts) {
    tile<V, kVectors, kPairBroadcasts>(p, v0, b);
  }
  switch (p.broadcasts - b) {
    case 5:
      return tile<V, kVectors, 5>(p, v0, b);
    case 4:
      return tile<V, kVectors, 4>(p, v0, b);
    case 3:
      return tile<V, kVectors, 3>(p, v0, b);
    case 2:
      return tile<V, kVectors, 2>(p, v0, b);
    case 1:
      return tile<V, kVectors, 1>(p, v0, b);
    default:
      return;
  }
}

#ifdef __AVX512BW__
// As many channels as a tile has broadcasts: too few for the compiler to make vectors of.
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

// The pairs of two pixels' channels. A null pixel is one of zeros.
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

void pair_product(const PairProduct& p) {
  std::int64_t v = 0;
  for (; v + kTileVectors * kWidth <= p.vectors; v += kTileVectors * kWidth) {
    panel<Vector, kTileVectors>(p, v);
  }
  for (; v + kWidth <= p.vectors; v += kWidth) panel<Vector, 1>(p, v);
  for (; v < p.vectors; ++v) panel<float, 1>(p, v);
}

}  // namespace pfc::PFC_ISA
