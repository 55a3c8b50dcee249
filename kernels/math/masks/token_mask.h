// The tokens that a vision transformer keeps in training: a pure function of (seed, step, sample,
// token), the same on every device (He et al., "Masked autoencoders", arXiv 2111.06377, section 3).
#pragma once

#include <cstdint>

#include "kernels/math/philox.h"

namespace pfc {

/// Returns a token's random number. `token` counts the tokens of all samples of all workers.
PFC_HOST_DEVICE float token_number(std::uint64_t seed, std::uint32_t step, std::uint64_t token) {
  return uniform_of(seed, Stream::kTokenMask, step, token);
}

/// Returns whether token t is among the `kept` tokens of its sample with the smallest numbers.
/// Among tokens with equal numbers, the first counts as smaller.
PFC_HOST_DEVICE bool is_kept(const float* numbers, std::int64_t tokens, std::int64_t t,
                             std::int64_t kept) {
  std::int64_t smaller = 0;
  for (std::int64_t i = 0; i < tokens; ++i) {
    smaller += numbers[i] < numbers[t] || (numbers[i] == numbers[t] && i < t);
  }
  return smaller < kept;
}

}  // namespace pfc
