// Normally distributed numbers for vectors: box_muller() of kernels/math/normal.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/vector/types/vector.h"

namespace pfc::PFC_ISA {

using Double [[gnu::vector_size(PFC_VECTOR_BYTES)]] = double;
using ULong [[gnu::vector_size(PFC_VECTOR_BYTES)]] = std::uint64_t;

[[gnu::always_inline]] inline Double square_root(Double x) {
#if PFC_VECTOR_BYTES == 64
  // Uses the masked variant with all lanes selected, because GCC 12 warns about the plain one.
  return reinterpret_cast<Double>(_mm512_maskz_sqrt_pd(0xff, reinterpret_cast<__m512d>(x)));
#elif PFC_VECTOR_BYTES == 32
  return reinterpret_cast<Double>(_mm256_sqrt_pd(reinterpret_cast<__m256d>(x)));
#else
  return reinterpret_cast<Double>(_mm_sqrt_pd(reinterpret_cast<__m128d>(x)));
#endif
}

/// Converts integers below 2^52: as the mantissa of 2^52 they give 2^52 + x.
[[gnu::always_inline]] inline Double double_of(ULong x) {
  return reinterpret_cast<Double>(x | 0x4330000000000000u) - 0x1p52;
}

/// Returns log(u) for 2^-33 <= u < 1, with an error of a few units in the last place: u = 2^k m
/// with sqrt(1/2) <= m < sqrt(2), and log(m) = 2 artanh(s) with s = (m - 1) / (m + 1), |s| < 0.172.
[[gnu::always_inline]] inline Double log_of_fraction(Double u) {
  constexpr std::uint64_t kOne = 0x3ff0000000000000u;       // bits of 1
  constexpr std::uint64_t kRootHalf = 0x3fe6a09e667f3bcdu;  // bits of sqrt(1/2)
  constexpr double kLn2High = 0x1.62e42fefa38p-1;  // has 42 bits, so its product with k is exact
  constexpr double kLn2Low = 0x1.ef35793c7673p-45;
  const ULong bits = reinterpret_cast<ULong>(u) + (kOne - kRootHalf);
  const Double k = double_of(bits >> 52) - 1023.0;
  const Double m = reinterpret_cast<Double>((bits & 0x000fffffffffffffu) + kRootHalf);
  const Double s = (m - 1.0) / (m + 1.0), z = s * s;
  Double p = Double{} + 1.0 / 21;
  p = p * z + 1.0 / 19;
  p = p * z + 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  return k * kLn2High + (2.0 * s + (2.0 * s * z * p + k * kLn2Low));
}

struct SineCosine {
  Double sine, cosine;
};

/// Taylor's series for |r| < 0.79, with errors of a few units in the last place.
[[gnu::always_inline]] inline SineCosine sine_cosine(Double r) {
  const Double z = r * r;
  Double s = Double{} - 1.0 / 1307674368000;  // 15!
  s = s * z + 1.0 / 6227020800;               // 13!
  s = s * z - 1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  Double c = Double{} + 1.0 / 20922789888000;  // 16!
  c = c * z - 1.0 / 87178291200;               // 14!
  c = c * z + 1.0 / 479001600;
  c = c * z - 1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  c = c * z - 0.5;
  return {.sine = r + r * z * s, .cosine = 1.0 + z * c};
}

/// Two numbers for each lane, which round to the floats of box_muller(). In lanes where `doubtful`
/// has all bits set (else it is 0), the last bit of a float may differ: the exact value is so near
/// to the middle between two floats that the errors of these functions may decide the rounding.
struct NormalVectors {
  Double a, b;
  ULong doubtful;
};

/// words: word1 + 2^32 * word2 in each lane.
[[gnu::always_inline]] inline NormalVectors normal_vectors(ULong words) {
  const ULong word1 = words & 0xffffffffu, word2 = words >> 32;
  const Double radius = square_root(-2.0 * log_of_fraction((double_of(word1) + 0.5) * 0x1p-32));
  Double angle = 6.283185307179586476925 * (double_of(word2) * 0x1p-32);
  asm("" : "+x"(angle));  // rounds it as box_muller() does, instead of in a fused multiply-add
  // r = angle - k pi / 2 for the nearest k. pi / 2 is the sum of two numbers. The first has at most
  // 33 bits, so its product with k is exact.
  const ULong quarters = (word2 + (1u << 29)) >> 30;
  const Double k = double_of(quarters);
  const Double r = (angle - k * 0x1.921fb544p+0) - k * 0x1.0b4611a626331p-34;
  const SineCosine of = sine_cosine(r);
  const auto odd = (quarters & 1u) != 0u;
  const ULong cosine = reinterpret_cast<ULong>(odd ? of.sine : of.cosine);
  const ULong sine = reinterpret_cast<ULong>(odd ? of.cosine : of.sine);
  // cos(r + k pi / 2) is negative for k = 1 and 2, the sine for k = 2 and 3.
  const ULong cosine_sign = ((quarters + 1u) & 2u) << 62, sine_sign = (quarters & 2u) << 62;
  NormalVectors normal{.a = radius * reinterpret_cast<Double>(cosine ^ cosine_sign),
                       .b = radius * reinterpret_cast<Double>(sine ^ sine_sign),
                       .doubtful = {}};
  // A float drops 29 bits. In the middle between two floats these bits are 2^28. The sums wrap
  // around below 0.
  constexpr std::uint64_t kDropped = (1u << 29) - 1, kMiddle = 1u << 28, kErrors = 64;
  const ULong a = (reinterpret_cast<ULong>(normal.a) + (kErrors - kMiddle)) & kDropped;
  const ULong b = (reinterpret_cast<ULong>(normal.b) + (kErrors - kMiddle)) & kDropped;
  const Double small = r * r;  // the absolute error of r, about 1e-26, matters if r is this small
  normal.doubtful =
      reinterpret_cast<ULong>((a < 2 * kErrors) | (b < 2 * kErrors) | (small < 1e-24));
  return normal;
}

}  // namespace pfc::PFC_ISA
