// Bernoulli draws in bulk, on the host.
#pragma once

#include <cstdint>
#include <span>

namespace pfc {

/// Element i of stream `a` of the class sampler is drawn when uniform01 of its word is below rate:
/// word i % 4 of random_words(seed, Stream::kClassSampling, a, i / 4).
struct ClassDraw {
  double rate = 1;  ///< 0 .. 1
  std::uint64_t seed = 0;
  std::uint32_t a = 0;
};

/// hits[k], bit j: whether element 4 * (first_block + k) + j is drawn. The same on every CPU.
void draw_classes(const ClassDraw& draw, std::int64_t first_block, std::span<std::uint8_t> hits);

}  // namespace pfc
