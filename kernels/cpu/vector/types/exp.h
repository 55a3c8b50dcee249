// exp() and log1p() for vectors.
#pragma once

#include <cstdint>

#include "kernels/cpu/vector/types/vector.h"

namespace pfc::PFC_ISA {

template <typename V>
struct Bits;
template <>
struct Bits<float> {
  using Type = std::int32_t;
};
template <>
struct Bits<Vector> {
  using Type [[gnu::vector_size(PFC_VECTOR_BYTES)]] = std::int32_t;
};

/// Returns exp(x) for x <= 88, with a relative error below 1e-7. Returns 0 below -87.3, the
/// logarithm of the smallest normal float, and for -infinity. Reduces the argument to |r| <= ln(2)
/// / 2 (Cody and Waite), and then sums Taylor's series up to the sixth power.
template <typename V>
[[gnu::always_inline]] inline V exp_of_negative(V x) {
  using Int = typename Bits<V>::Type;
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;    // has few bits, so its product with n is exact
  constexpr float kLn2Low = -2.12194440e-4f;  // ln 2 - high
  constexpr float kRound = 12582912.f;        // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLowest = -87.3f;
  const V bounded = x < kLowest ? V{} + kLowest : x;
  const V shifted = bounded * kLog2E + kRound;
  const V n = shifted - kRound;
  const V r = bounded - n * kLn2High - n * kLn2Low;
  V p = V{} + 1.f / 720.f;
  p = p * r + 1.f / 120.f;
  p = p * r + 1.f / 24.f;
  p = p * r + 1.f / 6.f;
  p = p * r + 0.5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  Int exponent;
  __builtin_memcpy(&exponent, &shifted, sizeof(exponent));
  exponent = (exponent + 127) << 23;  // the low bits of `shifted` are n
  V power;
  __builtin_memcpy(&power, &exponent, sizeof(power));
  return x < kLowest ? V{} : p * power;
}

/// Returns log(1 + x) for 0 <= x <= 1, with a relative error below 3e-7: the series of 2 artanh(t)
/// with t = x / (2 + x) <= 1/3, up to the thirteenth power.
template <typename V>
[[gnu::always_inline]] inline V log1p_of_fraction(V x) {
  const V t = x / (x + 2.f), squared = t * t;
  V p = V{} + 1.f / 13.f;
  p = p * squared + 1.f / 11.f;
  p = p * squared + 1.f / 9.f;
  p = p * squared + 1.f / 7.f;
  p = p * squared + 1.f / 5.f;
  p = p * squared + 1.f / 3.f;
  p = p * squared + 1.f;
  return (t + t) * p;
}

}  // namespace pfc::PFC_ISA
