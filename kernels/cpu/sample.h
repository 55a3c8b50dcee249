// Draws a random sample of classes on the host, each independently with equal probability.
#pragma once

#include <cstdint>
#include <span>

namespace pfc {

/// Element i is drawn if uniform01(word) < rate, where word is number i % 4 of random_words(seed,
/// Stream::kClassSampling, (step + phase) / hold, i / 4). The phase is floor(hold * first / 2^32),
/// where first is word 0 of random_words(seed, Stream::kSamplePhase, 0, i / 4); four adjacent
/// elements share it. So the draw of an element is repeated after `hold` steps, and each step
/// repeats the draws of about 1 / hold of the elements.
struct ClassDraw {
  double rate = 1;  ///< 0 to 1
  std::uint64_t seed = 0;
  std::int64_t step = 0;  ///< 0 to 2^32 - 1
  std::int64_t hold = 1;  ///< 1 to 2^31
};

/// Sets bit j of hits[k] if element 4 * (first_block + k) + j is drawn. Same on every CPU.
void draw_classes(const ClassDraw& draw, std::int64_t first_block, std::span<std::uint8_t> hits);

}  // namespace pfc
