// Aligns faces to the position that recognition networks expect.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "data/images/image_size.h"

namespace pfc {

struct Point {
  /// Pixels from the left and from the top; 0, 0 is the centre of the first pixel.
  double x = 0, y = 0;
};

/// Left eye, right eye, tip of the nose, left and right corner of the mouth, as seen in the image.
using Landmarks = std::array<Point, 5>;

/// A rotation, scaling and translation: maps (x, y) to (a x - b y + dx, b x + a y + dy).
struct Similarity {
  double a = 1, b = 0, dx = 0, dy = 0;

  [[nodiscard]] Point of(Point p) const { return {a * p.x - b * p.y + dx, b * p.x + a * p.y + dy}; }
};

/// Returns InsightFace's landmark positions for an image of `size` x `size` pixels: its five
/// points for 112 x 112, scaled.
Landmarks template_landmarks(std::int64_t size);

/// Returns the similarity without reflection that minimizes the sum of squared distances between
/// the mapped points of `from` and the points of `to` (Umeyama, TPAMI 1991; closed form in two
/// dimensions). REQUIRES: the points of `from` are not all equal.
Similarity estimate_similarity(const Landmarks& from, const Landmarks& to);

/// Warps rgb [from.height, from.width, 3] into out [to.height, to.width, 3] with bilinear
/// interpolation. `placed` maps input to output positions. Positions outside of the image are
/// black. If `placed` shrinks the image below half its size, first resizes it (resize.h) to avoid
/// aliasing. Same as OpenCV's warpAffine with INTER_LINEAR except for the rounding.
void warp(std::span<const std::uint8_t> rgb, ImageSize from, const Similarity& placed, ImageSize to,
          std::span<std::uint8_t> out);

}  // namespace pfc
