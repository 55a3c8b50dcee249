// Generates normally distributed numbers from uniformly distributed words.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/math/host_device.h"
#include "kernels/math/philox.h"

namespace pfc {

struct NormalPair {
  float a, b;
};

/// Returns two independent N(0, 1) numbers (Box and Muller, "A note on the generation of random
/// normal deviates", 1958). u1 is in (0, 1), so its logarithm is finite. Computed in float64, so
/// that host and device differ at most in the last bits of a float.
PFC_HOST_DEVICE NormalPair box_muller(std::uint32_t word1, std::uint32_t word2) {
  const double u1 = (static_cast<double>(word1) + 0.5) * 0x1p-32;
  const double u2 = static_cast<double>(word2) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u1));
  const double angle = 6.283185307179586476925 * u2;
  return {static_cast<float>(radius * std::cos(angle)),
          static_cast<float>(radius * std::sin(angle))};
}

}  // namespace pfc
