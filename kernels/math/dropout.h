// Dropout's mask: a pure function of (seed, step, element), the same on every device.
#pragma once

#include <cstdint>

#include "kernels/math/philox.h"

namespace pfc {

/// Returns the factor of an element: 0 with the given probability, otherwise 1 / (1 -
/// probability). Four adjacent elements use the four words of one Philox block.
PFC_HOST_DEVICE float dropout_factor(float probability, std::uint64_t seed, std::uint32_t step,
                                     std::uint64_t element) {
  const Philox4 words = random_words(seed, Stream::kDropout, step, element / 4);
  return uniform01(words.x[element % 4]) < probability ? 0.f : 1.f / (1.f - probability);
}

}  // namespace pfc
