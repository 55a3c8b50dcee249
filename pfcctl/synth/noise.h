// Smooth random patterns in the plane: value noise, which interpolates hashed lattice values.
#pragma once

#include <cstdint>

#include "pfcctl/synth/geometry.h"

namespace pfc::synth {

/// Returns a hash of a lattice point (multiply-xorshift; constants of murmur3's finaliser).
inline std::uint32_t lattice_hash(std::int32_t x, std::int32_t y, std::uint32_t seed) {
  std::uint32_t h = seed + static_cast<std::uint32_t>(x) * 0x9E3779B1u +
                    static_cast<std::uint32_t>(y) * 0x85EBCA77u;
  h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
  h = (h ^ (h >> 13)) * 0xC2B2AE35u;
  return h ^ (h >> 16);
}

/// Returns a value in [0, 1).
inline float lattice_value(std::int32_t x, std::int32_t y, std::uint32_t seed) {
  return static_cast<float>(lattice_hash(x, y, seed) >> 8) * 0x1p-24f;
}

/// Avoids std::floor, a library call on plain x86-64: this is the renderer's innermost loop.
inline std::int32_t floor_to_int(float x) {
  const auto truncated = static_cast<std::int32_t>(x);
  return truncated - static_cast<std::int32_t>(x < static_cast<float>(truncated));
}

/// Returns smooth noise in [-1, 1] with features about one unit wide.
inline float smooth_noise(float x, float y, std::uint32_t seed) {
  const std::int32_t ix = floor_to_int(x), iy = floor_to_int(y);
  const float tx = x - static_cast<float>(ix), ty = y - static_cast<float>(iy);
  const float sx = tx * tx * (3 - 2 * tx), sy = ty * ty * (3 - 2 * ty);
  const float top = mix(lattice_value(ix, iy, seed), lattice_value(ix + 1, iy, seed), sx);
  const float bottom =
      mix(lattice_value(ix, iy + 1, seed), lattice_value(ix + 1, iy + 1, seed), sx);
  return 2 * mix(top, bottom, sy) - 1;
}

}  // namespace pfc::synth
