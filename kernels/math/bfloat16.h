// bfloat16: the upper half of a float32. It has 8 bits of precision and the range of float32.
#pragma once

#include <cstdint>

#include "kernels/math/host_device.h"
#include "kernels/math/philox.h"

namespace pfc {

using BFloat16 = std::uint16_t;

PFC_HOST_DEVICE float float_of(BFloat16 b) {
  const std::uint32_t bits = static_cast<std::uint32_t>(b) << 16;
  float x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}

PFC_HOST_DEVICE std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits;
}

/// Returns whether the number is an infinity or a NaN. Their bits must not be rounded: a carry
/// would turn a NaN into an infinity.
PFC_HOST_DEVICE bool has_full_exponent(std::uint32_t bits) {
  return (bits & 0x7f800000u) == 0x7f800000u;
}

/// Rounds to nearest, ties to even.
PFC_HOST_DEVICE BFloat16 nearest_bfloat16(float x) {
  const std::uint32_t bits = bits_of(x);
  if (has_full_exponent(bits)) {
    const std::uint32_t quiet = (bits & 0x007fffffu) != 0 ? 0x40u : 0u;
    return static_cast<BFloat16>((bits >> 16) | quiet);
  }
  return static_cast<BFloat16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// Stochastic rounding (Gupta et al., "Deep learning with limited numerical precision", arXiv
/// 1502.02551, section 3): rounds up or down with probabilities such that the expected result is
/// x. So updates much smaller than the last bit of a bfloat16 are not lost. random: 16 uniform
/// bits.
PFC_HOST_DEVICE BFloat16 stochastic_bfloat16(float x, std::uint32_t random) {
  const std::uint32_t bits = bits_of(x);
  if (has_full_exponent(bits)) return nearest_bfloat16(x);
  return static_cast<BFloat16>((bits + random) >> 16);
}

/// Source of the random bits for one class centre in one optimizer step. Depends only on seed,
/// update and class, so the bits are the same for any number of workers.
struct RoundingKey {
  std::uint32_t a, b;
};
PFC_HOST_DEVICE RoundingKey rounding_key(std::uint64_t seed, std::int64_t update, std::int64_t c) {
  const Philox4 words =
      random_words(seed, Stream::kStochasticRounding, static_cast<std::uint32_t>(update),
                   static_cast<std::uint64_t>(c));
  return {words.x[0], words.x[1]};
}

/// Returns 32 random bits for an element of the row: the lower 16 round the centre, the upper 16
/// its momentum. This is MurmurHash3's finalizer (Appleby), in which every input bit flips each
/// output bit with a probability near 1/2. That is random enough for rounding, and five times
/// faster than Philox. Word is std::uint32_t or a vector of them.
template <typename Word>
PFC_HOST_DEVICE Word rounding_bits(const RoundingKey& key, Word element) {
  Word h = (element * 0x9E3779B9u) ^ key.a;
  h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
  h = ((h ^ (h >> 13)) + key.b) * 0xC2B2AE35u;
  return h ^ (h >> 16);
}

}  // namespace pfc
