// Loads and stores one-byte numbers (kernels/math/one_byte.h) as vectors of float32.
#pragma once

#include "kernels/cpu/vector/types/bfloat16.h"
#include "kernels/cpu/vector/types/vector.h"
#include "kernels/math/one_byte.h"

namespace pfc::PFC_ISA {

using Bytes [[gnu::vector_size(PFC_VECTOR_BYTES / 4)]] = std::uint8_t;

/// The integers with as many lanes as a V.
template <typename V>
struct WordsOf {
  using Type = Words;
};
template <>
struct WordsOf<float> {
  using Type = std::uint32_t;
};

// GCC 12 compiles a conversion to four times the width, or to a quarter of it, to code for one lane
// at a time. These functions avoid that.
[[gnu::always_inline]] inline Words widened(Bytes bytes) {
#ifdef __AVX512BW__
  return reinterpret_cast<Words>(
      _mm512_maskz_cvtepu8_epi32(0xffff, reinterpret_cast<__m128i>(bytes)));
#else
  return __builtin_convertvector(__builtin_convertvector(bytes, Halves), Words);
#endif
}
/// Keeps the lower 8 bits of each lane.
[[gnu::always_inline]] inline Bytes narrowed(Words words) {
#ifdef __AVX512BW__
  return reinterpret_cast<Bytes>(
      _mm512_maskz_cvtepi32_epi8(0xffff, reinterpret_cast<__m512i>(words)));
#else
  return __builtin_convertvector(__builtin_convertvector(words, Halves), Bytes);
#endif
}

template <typename W>
[[gnu::always_inline]] inline W load_codes(const std::uint8_t* p) {
  if constexpr (sizeof(W) == sizeof(std::uint32_t)) {
    return *p;
  } else {
    Bytes bytes;
    __builtin_memcpy(&bytes, p, sizeof(bytes));
    return widened(bytes);
  }
}

/// Stores the lower 8 bits of each code.
template <typename W>
[[gnu::always_inline]] inline void store_codes(std::uint8_t* p, W codes) {
  if constexpr (sizeof(W) == sizeof(std::uint32_t)) {
    *p = static_cast<std::uint8_t>(codes);
  } else {
    const Bytes bytes = narrowed(codes);
    __builtin_memcpy(p, &bytes, sizeof(bytes));
  }
}

/// A position in a row of one-byte numbers.
template <typename Numbers>
struct Codes {
  const std::uint8_t* at;
  float scale;
  [[gnu::always_inline]] Codes operator+(std::int64_t i) const { return {at + i, scale}; }
};

template <typename V, typename Numbers>
[[gnu::always_inline]] inline V load_number(Codes<Numbers> codes) {
  const auto words = load_codes<typename WordsOf<V>::Type>(codes.at);
  return Numbers::template decode<V>(words) * codes.scale;
}

/// Finds the bits of the largest magnitude. A NaN counts as the largest.
class LargestBits {
 public:
  template <typename V>
  [[gnu::always_inline]] void add(V x) {
    using W = typename WordsOf<V>::Type;
    const W bits = same_bits<W>(x) & 0x7fffffffu;
    if constexpr (sizeof(W) == sizeof(std::uint32_t)) {
      rest_ = bits > rest_ ? bits : rest_;
    } else {
      most_ = bits > most_ ? bits : most_;
    }
  }
  [[nodiscard]] std::uint32_t bits() const {
    std::uint32_t lanes[kWidth];
    __builtin_memcpy(lanes, &most_, sizeof(lanes));
    std::uint32_t largest = rest_;
    for (const std::uint32_t lane : lanes) largest = lane > largest ? lane : largest;
    return largest;
  }

 private:
  Words most_{};
  std::uint32_t rest_ = 0;
};

}  // namespace pfc::PFC_ISA
