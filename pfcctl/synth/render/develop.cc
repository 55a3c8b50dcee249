#include "pfcctl/synth/render/develop.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "pfcctl/synth/noise.h"

namespace pfc::synth {
namespace {

/// Averages over the area of each new pixel. Correct for any shrink factor; enlarging
/// interpolates.
Picture resize(const Picture& from, int size) {
  const auto line = [&](const Colour* in, std::size_t stride, Colour* out, std::size_t out_stride) {
    const float step = static_cast<float>(from.size) / static_cast<float>(size);
    const float width = std::max(step, 1.f);
    for (int i = 0; i < size; ++i) {
      const float middle = (static_cast<float>(i) + 0.5f) * step;
      const float begin = std::max(0.f, middle - width / 2);
      const float end = std::min(static_cast<float>(from.size), middle + width / 2);
      Colour sum;
      for (int j = static_cast<int>(begin); j < from.size && static_cast<float>(j) < end; ++j) {
        const float j0 = static_cast<float>(j);
        sum = sum + in[static_cast<std::size_t>(j) * stride] *
                        (std::min(end, j0 + 1) - std::max(begin, j0));
      }
      out[static_cast<std::size_t>(i) * out_stride] = sum * (1 / (end - begin));
    }
  };
  const auto old_side = static_cast<std::size_t>(from.size), side = static_cast<std::size_t>(size);
  std::vector<Colour> rows(side * old_side);  // [old height, new width]
  for (std::size_t y = 0; y < old_side; ++y)
    line(&from.pixels[y * old_side], 1, &rows[y * side], 1);
  Picture out(size);
  for (std::size_t x = 0; x < side; ++x) line(&rows[x], side, &out.pixels[x], side);
  return out;
}

/// Returns weighted averages along a line of offsets. Edges repeat.
Picture filter(const Picture& in, const std::vector<Vec3>& taps) {
  Picture out(in.size);
  for (int y = 0; y < in.size; ++y) {
    for (int x = 0; x < in.size; ++x) {
      Colour sum;
      for (const Vec3& tap : taps) {
        const int sx = std::clamp(x + static_cast<int>(tap.x), 0, in.size - 1);
        const int sy = std::clamp(y + static_cast<int>(tap.y), 0, in.size - 1);
        sum = sum + in.at(sx, sy) * tap.z;
      }
      out.at(x, y) = sum;
    }
  }
  return out;
}

void scale_to_one(std::vector<Vec3>& taps) {
  float sum = 0;
  for (const Vec3& tap : taps) sum += tap.z;
  for (Vec3& tap : taps) tap.z /= sum;
}

Picture gaussian(const Picture& in, float sigma) {
  const int reach = static_cast<int>(std::ceil(2.5f * sigma));
  std::vector<Vec3> across, down;
  for (int i = -reach; i <= reach; ++i) {
    const float at = static_cast<float>(i), weight = std::exp(-0.5f * square(at / sigma));
    across.push_back({at, 0, weight});
    down.push_back({0, at, weight});
  }
  scale_to_one(across);
  scale_to_one(down);
  return filter(filter(in, across), down);
}

Picture motion_blur(const Picture& in, float length, float turn) {
  constexpr int kTaps = 7;
  std::vector<Vec3> taps;
  for (int i = 0; i < kTaps; ++i) {
    const float t = (static_cast<float>(i) / (kTaps - 1) - 0.5f) * length;
    taps.push_back({std::round(t * std::cos(turn)), std::round(t * std::sin(turn)), 1});
  }
  scale_to_one(taps);
  return filter(in, taps);
}

/// Converts linear light to sRGB's curve, 0 .. 1. Uses a table, because a power per channel would
/// cost more than the rest of the camera.
float encoded(float linear) {
  constexpr int kSteps = 1024;
  static const std::array<float, kSteps + 2> kTable = [] {
    std::array<float, kSteps + 2> table{};
    for (std::size_t i = 0; i < table.size(); ++i) {
      // Squared spacing, because the curve is steepest near black.
      table[i] = std::pow(square(static_cast<float>(i) / kSteps), 1 / 2.2f);
    }
    return table;
  }();
  const float at = std::sqrt(clamp01(linear)) * kSteps;
  const int i = static_cast<int>(at);
  const auto k = static_cast<std::size_t>(i);
  return mix(kTable[k], kTable[k + 1], at - static_cast<float>(i));
}

/// Returns roughly normal noise with deviation 1: the sum of a hash's four bytes.
float grain(int x, int y, std::uint32_t seed) {
  const std::uint32_t h = lattice_hash(x, y, seed);
  const std::uint32_t sum = (h & 255) + ((h >> 8) & 255) + ((h >> 16) & 255) + (h >> 24);
  return (static_cast<float>(sum) - 510) / 147.8f;
}

Colour exposed(Colour light, const Camera& c, float falloff) {
  const Colour balanced = light * c.balance * (c.exposure * falloff);
  Colour v{encoded(balanced.x), encoded(balanced.y), encoded(balanced.z)};
  const float grey = 0.3f * v.x + 0.59f * v.y + 0.11f * v.z;
  v = mix({grey, grey, grey}, v, c.grey ? 0 : c.saturation);
  return (v - Vec3{0.45f, 0.45f, 0.45f}) * c.contrast + Vec3{0.45f, 0.45f, 0.45f};
}

}  // namespace

std::vector<std::uint8_t> develop(Picture picture, const Camera& camera, int size) {
  if (camera.coarseness > 1) {
    picture = resize(picture, static_cast<int>(static_cast<float>(size) / camera.coarseness));
  }
  picture = resize(picture, size);
  if (camera.blur > 0) picture = gaussian(picture, camera.blur);
  if (camera.motion > 0) picture = motion_blur(picture, camera.motion, camera.motion_turn);

  std::vector<std::uint8_t> bytes;
  bytes.reserve(picture.pixels.size() * 3);
  const float half = static_cast<float>(size) / 2;
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      const float away = square((static_cast<float>(x) - half) / half) +
                         square((static_cast<float>(y) - half) / half);
      const Colour v = exposed(picture.at(x, y), camera, 1 - 0.5f * camera.vignette * away);
      std::uint32_t channel = 0;
      for (const float value : {v.x, v.y, v.z}) {
        const float noisy = value + camera.noise * grain(x, y, camera.noise_seed + channel++);
        // NOLINTNEXTLINE(bugprone-incorrect-roundings): it is never negative
        bytes.push_back(static_cast<std::uint8_t>(255 * clamp01(noisy) + 0.5f));
      }
    }
  }
  return bytes;
}

}  // namespace pfc::synth
