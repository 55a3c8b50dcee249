// Draws a random sample of classes on the host, each independently with equal probability.
#pragma once

#include <cstdint>
#include <span>

namespace pfc {

/// Element i is drawn if uniform01(word) < rate, where word is number i % 4 of random_words(seed,
/// Stream::kClassSampling, a, i / 4).
struct ClassDraw {
  double rate = 1;  ///< 0 to 1
  std::uint64_t seed = 0;
  std::uint32_t a = 0;  ///< distinguishes draws with the same seed, see random_words()
};

/// Sets bit j of hits[k] if element 4 * (first_block + k) + j is drawn. Same on every CPU.
void draw_classes(const ClassDraw& draw, std::int64_t first_block, std::span<std::uint8_t> hits);

}  // namespace pfc
