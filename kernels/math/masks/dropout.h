// Dropout's mask: a pure function of (seed, step, element), the same on every device.
#pragma once

#include <cstdint>

#include "kernels/math/philox.h"

namespace pfc {

/// Returns the factor of an element: 0 with the given probability, otherwise 1 / (1 -
/// probability).
PFC_HOST_DEVICE float dropout_factor(float probability, std::uint64_t seed, std::uint32_t step,
                                     std::uint64_t element) {
  return uniform_of(seed, Stream::kDropout, step, element) < probability
             ? 0.f
             : 1.f / (1.f - probability);
}

}  // namespace pfc
