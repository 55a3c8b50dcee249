// bfloat16: the upper half of a float32. 8 bits of precision, float32's range.
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

/// Not a number stays one: rounding must not carry its bits over into an infinity.
PFC_HOST_DEVICE bool has_full_exponent(std::uint32_t bits) {
  return (bits & 0x7f800000u) == 0x7f800000u;
}

/// To the nearest, ties to even.
PFC_HOST_DEVICE BFloat16 nearest_bfloat16(float x) {
  const std::uint32_t bits = bits_of(x);
  if (has_full_exponent(bits)) {
    const std::uint32_t quiet = (bits & 0x007fffffu) != 0 ? 0x40u : 0u;
    return static_cast<BFloat16>((bits >> 16) | quiet);
  }
  return static_cast<BFloat16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// Up or down with the probability that makes the mean of the result x (Gupta et al., "Deep
/// learning with limited numerical precision", arXiv 1502.02551, section 3): steps that are far
/// smaller than a bfloat16's last bit are not lost. random: 16 uniform bits.
PFC_HOST_DEVICE BFloat16 stochastic_bfloat16(float x, std::uint32_t random) {
  const std::uint32_t bits = bits_of(x);
  if (has_full_exponent(bits)) return nearest_bfloat16(x);
  return static_cast<BFloat16>((bits + random) >> 16);
}

/// What the random bits of one class centre come from in one optimizer step: one Philox block a
/// row, the same for any number of workers.
struct RoundingKey {
  std::uint32_t a, b;
};
PFC_HOST_DEVICE RoundingKey rounding_key(std::uint64_t seed, std::int64_t update, std::int64_t c) {
  const Philox4 words =
      random_words(seed, Stream::kStochasticRounding, static_cast<std::uint32_t>(update),
                   static_cast<std::uint64_t>(c));
  return {words.x[0], words.x[1]};
}

/// 32 bits for element `element` of the row: the lower half rounds the centre, the upper half its
/// momentum. MurmurHash3's finalizer (Appleby), every input bit of which flips each output bit with
/// a probability near 1/2: rounding needs no more, at a fifth of Philox's cost.
/// Word is std::uint32_t or a vector of them.
template <typename Word>
PFC_HOST_DEVICE Word rounding_bits(const RoundingKey& key, Word element) {
  Word h = (element * 0x9E3779B9u) ^ key.a;
  h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
  h = ((h ^ (h >> 13)) + key.b) * 0xC2B2AE35u;
  return h ^ (h >> 16);
}

}  // namespace pfc
