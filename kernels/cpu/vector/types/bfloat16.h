// Loads and stores float32 and bfloat16 numbers (kernels/math/bfloat16.h) as vectors of float32.
#pragma once

#ifdef __AVX512BW__
#include <immintrin.h>
#endif

#include "kernels/cpu/vector/types/exp.h"
#include "kernels/cpu/vector/types/vector.h"
#include "kernels/math/bfloat16.h"

namespace pfc::PFC_ISA {

using Halves [[gnu::vector_size(PFC_VECTOR_BYTES / 2)]] = std::uint16_t;
using Words [[gnu::vector_size(PFC_VECTOR_BYTES)]] = std::uint32_t;

/// Zero-extends each lane. GCC 12 needs five instructions for the generic conversion to 512 bits.
[[gnu::always_inline]] inline Words widened(Halves halves) {
#ifdef __AVX512BW__
  return reinterpret_cast<Words>(
      _mm512_maskz_cvtepu16_epi32(0xffff, reinterpret_cast<__m256i>(halves)));
#else
  return __builtin_convertvector(halves, Words);
#endif
}

template <typename V>
[[gnu::always_inline]] inline V load_number(const float* p) {
  return load<V>(p);
}

template <typename V>
[[gnu::always_inline]] inline V load_number(const BFloat16* p) {
  if constexpr (sizeof(V) == sizeof(float)) {
    return float_of(*p);
  } else {
    Halves halves;
    __builtin_memcpy(&halves, p, sizeof(halves));
    return reinterpret_cast<V>(widened(halves) << 16);
  }
}

/// Same as load_number(), and prefetches data that the loop will load soon. For loops that read
/// several memory streams at once, which hardware prefetchers do not follow well. A prefetch after
/// the end of the memory has no effect.
template <typename V, typename T>
[[gnu::always_inline]] inline V stream(const T* p) {
  constexpr std::int64_t kAhead = 4096 / sizeof(T);  // covers the latency of memory at 10 GB/s
  __builtin_prefetch(p + kAhead);
  return load_number<V>(p);
}

/// Rounds to nearest, ties to even.
template <typename V>
[[gnu::always_inline]] inline void store_nearest(BFloat16* p, V value) {
  if constexpr (sizeof(V) == sizeof(float)) {
    *p = nearest_bfloat16(value);
  } else {
    const auto bits = reinterpret_cast<Words>(value);
    const Words full = Words{} + 0x7f800000u;
#ifdef __AVX512BF16__
    // The instruction treats subnormal numbers as zeros.
    if (_mm512_test_epi32_mask(reinterpret_cast<__m512i>(bits), reinterpret_cast<__m512i>(full)) ==
        0xffffu) {
      const __m256bh rounded_by_cpu = _mm512_cvtneps_pbh(value);
      __builtin_memcpy(p, &rounded_by_cpu, sizeof(rounded_by_cpu));
      return;
    }
#endif
    const Words rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    const Words not_a_number = (bits & 0x007fffffu) != 0 ? bits | 0x00400000u : bits;
    const Words kept = (bits & full) == full ? not_a_number : rounded;
    const Halves halves = __builtin_convertvector(kept >> 16, Halves);
    __builtin_memcpy(p, &halves, sizeof(halves));
  }
}

/// Stores an activation and returns the stored value. Rounds to nearest, ties to even.
template <typename V>
[[gnu::always_inline]] inline V store_activation(float* p, V value) {
  store<V>(p, value);
  return value;
}

template <typename V>
[[gnu::always_inline]] inline V store_activation(BFloat16* p, V value) {
#ifdef __AVX512BF16__
  // The instruction stores numbers below the smallest normal one, 1e-38, as zeros.
  if constexpr (sizeof(V) == sizeof(__m512)) {
    const __m256bh halves = _mm512_cvtneps_pbh(reinterpret_cast<__m512>(value));
    __builtin_memcpy(p, &halves, sizeof(halves));
    return load_number<V>(p);
  }
#endif
  store_nearest<V>(p, value);
  return load_number<V>(p);
}

/// Returns `x` as store_activation() would store it in an activation of type T.
template <typename T, typename V>
[[gnu::always_inline]] inline V as_stored(V value) {
  T memory[sizeof(V) / sizeof(float)];
  return store_activation<V>(memory, value);
}

/// Returns the random bits for the elements of a V that starts at element i.
template <typename V>
[[gnu::always_inline]] inline auto random_bits(const RoundingKey& key, std::int64_t i) {
  const auto first = static_cast<std::uint32_t>(i);
  if constexpr (sizeof(V) == sizeof(float)) {
    return rounding_bits(key, first);
  } else {
    Words elements{};
    for (std::int64_t lane = 0; lane < kWidth; ++lane) {
      elements[lane] = static_cast<std::uint32_t>(lane);
    }
    return rounding_bits(key, elements + first);
  }
}

/// Stores a number, and returns it as stored. A bfloat16 is rounded with the lower 16 random bits.
template <typename V, typename Bits>
[[gnu::always_inline]] inline V store_number(float* p, V value, Bits) {
  store<V>(p, value);
  return value;
}

template <typename V, typename Bits>
[[gnu::always_inline]] inline V store_number(BFloat16* p, V value, Bits random) {
  if constexpr (sizeof(V) == sizeof(float)) {
    *p = stochastic_bfloat16(value, random & 0xffffu);
    return float_of(*p);
  } else {
    const auto bits = reinterpret_cast<Words>(value);
    const Words full = Words{} + 0x7f800000u;
    const Words upper = ((bits & full) == full ? bits : bits + (random & 0xffffu)) >> 16;
    const Halves halves = __builtin_convertvector(upper, Halves);
    __builtin_memcpy(p, &halves, sizeof(halves));
    return reinterpret_cast<V>(upper << 16);
  }
}

}  // namespace pfc::PFC_ISA
