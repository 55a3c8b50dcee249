// Numbers of one byte: int8, and fp8 with 4 bits of exponent and 3 of mantissa (E4M3; Micikevicius
// et al., "FP8 formats for deep learning", arXiv 2209.05433, table 1). The numbers of a row share a
// scale, a power of two, so scaling is exact. Unless the scale grows, numbers that do not
// change are stored again without rounding. Both formats have at most 7 significant bits: a
// bfloat16 holds every number of a row exactly.
//
// F is float and W is std::uint32_t, or both are vectors of them.
#pragma once

#include <cstdint>

#include "kernels/math/host_device.h"

namespace pfc {

enum class OneByteFormat { kInt8, kFp8 };

template <typename To, typename From>
PFC_HOST_DEVICE To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

/// Returns x, from 0 to below 2^22, rounded up to an integer if its fraction is above u, else down.
/// The expected result is x if u is uniform in [0, 1). u = 0.5 rounds to the nearest.
template <typename F>
PFC_HOST_DEVICE F rounded_integer(F x, F u) {
  constexpr float kIntegers = 0x1p23f;  // from here on, float32 has only integers
  const F nearest = (x + kIntegers) - kIntegers;
  const F down = nearest > x ? nearest - 1.f : nearest;
  return x - down > u ? down + 1.f : down;
}

/// Returns a number in [0, 1) with 23 bits.
template <typename F, typename W>
PFC_HOST_DEVICE F uniform_of_bits(W bits) {
  return same_bits<F>((bits >> 9) | 0x3f800000u) - 1.f;
}

/// A rounded number of a row, divided by the row's scale. The lower 8 bits of `code` are the byte
/// that stores it.
template <typename F, typename W>
struct OneByte {
  F number;
  W code;
};

/// Integers from -127 to 127, in two's complement.
struct Int8Numbers {
  static constexpr OneByteFormat kFormat = OneByteFormat::kInt8;
  static constexpr std::uint32_t kLargest = 0x42fe0000u;  // 127 as float32
  static constexpr std::uint32_t kExponent = 6;           // exponent of the largest number

  /// x: from -127 to 127. u: as in rounded_integer().
  template <typename F, typename W>
  PFC_HOST_DEVICE static OneByte<F, W> encode(F x, F u) {
    const W bits = same_bits<W>(x), sign = bits & 0x80000000u;
    const F magnitude = rounded_integer(same_bits<F>(bits ^ sign), u);
    const F number = same_bits<F>(same_bits<W>(magnitude) | sign);
    return {number, same_bits<W>(number + kOffset) ^ 0x80u};
  }
  template <typename F, typename W>
  PFC_HOST_DEVICE static F decode(W code) {
    return same_bits<F>((code ^ 0x80u) | 0x4b000000u) - kOffset;
  }

 private:
  static constexpr float kOffset = 0x1p23f + 128;  // the lowest bits of kOffset + x are x + 128
};

/// E4M3, without NaN. Numbers below 2^-6 are multiples of 2^-9.
struct Fp8Numbers {
  static constexpr OneByteFormat kFormat = OneByteFormat::kFp8;
  static constexpr std::uint32_t kLargest = 0x43e00000u;  // 448 as float32
  static constexpr std::uint32_t kExponent = 8;

  /// x: from -448 to 448. u: as in rounded_integer().
  template <typename F, typename W>
  PFC_HOST_DEVICE static OneByte<F, W> encode(F x, F u) {
    constexpr std::uint32_t kSmallest = (127u - 6) << 23;  // exponent of subnormal numbers
    const W bits = same_bits<W>(x), sign = bits & 0x80000000u;
    const W own = bits & 0x7f800000u;
    const W exponent = own < kSmallest ? (own & 0u) + kSmallest : own;
    const F step = same_bits<F>(exponent - (3u << 23));  // distance between two numbers
    const F inverse = same_bits<F>((257u << 23) - exponent);
    const F steps = rounded_integer(same_bits<F>(bits ^ sign) * inverse, u);
    const W count = same_bits<W>(steps + 0x1p23f) & 0xffu;
    const W code = count + ((exponent - kSmallest) >> 20);
    return {same_bits<F>(same_bits<W>(steps * step) | sign), code | sign >> 24};
  }
  template <typename F, typename W>
  PFC_HOST_DEVICE static F decode(W code) {
    const W bits = (code & 0x7fu) << 20;  // exponent and mantissa at their places in a float32
    const F normal = same_bits<F>(bits + (120u << 23));
    const F subnormal = same_bits<F>(bits + (121u << 23)) - 0x1p-6f;
    const F number = bits < (1u << 23) ? subnormal : normal;
    return same_bits<F>(same_bits<W>(number) | (code & 0x80u) << 24);
  }
};

/// Returns the scale of a row whose largest magnitude has these float32 bits: the smallest power of
/// two, at least 2^-100, with which the magnitude fits. 0 for a row of zeros. NaN if the magnitude
/// is 2^127 or more, infinite or NaN; then the whole row becomes NaN.
template <typename Numbers>
PFC_HOST_DEVICE float row_scale(std::uint32_t largest) {
  constexpr std::uint32_t kLeast = 127 - 100, kMost = 127 + 127;
  // The sum carries into the exponent if the mantissa is above that of kLargest.
  constexpr std::uint32_t kCarry = 0x7fffffu - (Numbers::kLargest & 0x7fffffu);
  if (largest == 0) return 0.f;
  if (largest >= kMost << 23) return same_bits<float>(0x7fc00000u);
  const std::uint32_t exponent = (largest + kCarry) >> 23;
  const bool tiny = exponent < kLeast + Numbers::kExponent;
  return same_bits<float>((tiny ? kLeast : exponent - Numbers::kExponent) << 23);
}

}  // namespace pfc
