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

/// Where the random bits of an element of a class centre's row come from: word `word` of Philox
/// block `block` of the row. 64 elements share 16 blocks, interleaved so that a vector of any width
/// up to 16 takes consecutive elements from one word.
struct RoundingWord {
  std::int64_t block;
  int word;
};
PFC_HOST_DEVICE RoundingWord rounding_word(std::int64_t element) {
  return {element / 64 * 16 + element % 16, static_cast<int>(element % 64 / 16)};
}

/// Block 0 of class `c`. A row has fewer than 2^16 blocks: embedding_size is at most 65536.
PFC_HOST_DEVICE std::uint64_t first_rounding_block(std::int64_t c) {
  return static_cast<std::uint64_t>(c) << 16;
}

/// The 32 random bits for an element of class `c` in optimizer step `update`: the lower half rounds
/// the centre, the upper half its momentum. The same for any number of workers.
PFC_HOST_DEVICE std::uint32_t rounding_bits(std::uint64_t seed, std::int64_t update, std::int64_t c,
                                            std::int64_t element) {
  const RoundingWord at = rounding_word(element);
  const std::uint64_t block = first_rounding_block(c) + static_cast<std::uint64_t>(at.block);
  return random_words(seed, Stream::kStochasticRounding, static_cast<std::uint32_t>(update), block)
      .x[at.word];
}

}  // namespace pfc
