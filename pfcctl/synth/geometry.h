// Vectors and curves of the face renderer. Units are millimetres on the head: x to the viewer's
// right, y down, z towards the viewer. The origin lies between the eyes, inside the head.
#pragma once

#include <algorithm>
#include <cmath>

namespace pfc::synth {

struct Vec2 {
  float x = 0, y = 0;
};

struct Vec3 {
  float x = 0, y = 0, z = 0;

  friend Vec3 operator+(Vec3 a, Vec3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
  friend Vec3 operator-(Vec3 a, Vec3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
  friend Vec3 operator*(Vec3 a, Vec3 b) { return {a.x * b.x, a.y * b.y, a.z * b.z}; }
  friend Vec3 operator*(Vec3 a, float s) { return {a.x * s, a.y * s, a.z * s}; }
};

/// Colours are linear-light red, green and blue in x, y and z.
using Colour = Vec3;

inline float dot(Vec3 a, Vec3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline Vec3 cross(Vec3 a, Vec3 b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
inline Vec3 normalised(Vec3 a) {
  const float length = std::sqrt(dot(a, a));
  return length > 1e-12f ? a * (1 / length) : Vec3{0, 0, 1};
}

inline float clamp01(float x) { return std::clamp(x, 0.f, 1.f); }
inline float mix(float a, float b, float t) { return a + (b - a) * t; }
inline Vec3 mix(Vec3 a, Vec3 b, float t) { return a + (b - a) * t; }
inline float square(float x) { return x * x; }

/// Returns 0 below `from`, 1 above `to`, smooth between. `from` may be larger than `to`.
inline float ramp(float from, float to, float x) {
  const float t = clamp01((x - from) / (to - from));
  return t * t * (3 - 2 * t);
}

/// Returns a smooth hill: 1 in the middle, 0 from radius 1 on; q is the squared distance. A
/// polynomial, because a Gaussian costs an exponential in each of a million evaluations per image.
inline float hill(float q) { return q >= 1 ? 0.f : square(1 - q) * (1 - q); }
inline float hill(float dx, float dy, float rx, float ry) {
  return hill(square(dx / rx) + square(dy / ry));
}

/// Converts an sRGB colour (0 .. 255) to linear light with the gamma-2.2 approximation.
inline Colour srgb(float r, float g, float b) {
  const auto linear = [](float v) { return std::pow(v / 255.f, 2.2f); };
  return {linear(r), linear(g), linear(b)};
}

}  // namespace pfc::synth
