// Vectors, colours and smooth random fields of the face generator.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace pfc::synth {

/// A place (x, y) or a colour: red, green and blue in sRGB, 0 to 1.
struct Vec3 {
  float x = 0, y = 0, z = 0;

  friend Vec3 operator+(Vec3 a, Vec3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
  friend Vec3 operator*(Vec3 a, Vec3 b) { return {a.x * b.x, a.y * b.y, a.z * b.z}; }
  friend Vec3 operator*(Vec3 a, float s) { return {a.x * s, a.y * s, a.z * s}; }
};

inline float clamp01(float x) { return std::clamp(x, 0.f, 1.f); }
inline Vec3 mix(Vec3 a, Vec3 b, float t) { return a * (1 - t) + b * t; }

/// Returns 0 below `from`, 1 above `to`, smooth between. `from` may be larger than `to`.
inline float ramp(float from, float to, float x) {
  const float t = clamp01((x - from) / (to - from));
  return t * t * (3 - 2 * t);
}

/// A square grid of side x side vectors over the unit square, interpolated smoothly.
struct Field {
  int side;
  std::vector<Vec3> values;  ///< [side, side]

  /// Sets every value to make(), row by row.
  template <class Make>
  Field(int n, const Make& make) : side(n), values(static_cast<std::size_t>(n * n)) {
    std::ranges::generate(values, make);
  }
  /// Returns the value at (u, v), which are clamped to [0, 1].
  [[nodiscard]] Vec3 at(float u, float v) const {
    const float last = static_cast<float>(side - 1);
    const float x = clamp01(u) * last, y = clamp01(v) * last;
    const int i = std::min(static_cast<int>(x), side - 2);
    const int j = std::min(static_cast<int>(y), side - 2);
    const float s = ramp(0, 1, x - static_cast<float>(i));
    const float t = ramp(0, 1, y - static_cast<float>(j));
    const Vec3* corner = &values[static_cast<std::size_t>(j * side + i)];
    return mix(mix(corner[0], corner[1], s), mix(corner[side], corner[side + 1], s), t);
  }
};

}  // namespace pfc::synth
