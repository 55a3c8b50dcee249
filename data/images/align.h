// Faces to the place that recognition networks expect them at.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "data/images/image_size.h"

namespace pfc {

struct Point {
  double x = 0, y = 0;  ///< pixels from the left and from the top; the first pixel's middle is 0, 0
};

/// Left eye, right eye, tip of the nose, left and right corner of the mouth, as seen in the image.
using Landmarks = std::array<Point, 5>;

/// Turns, scales and moves: (x, y) becomes (a x - b y + dx, b x + a y + dy).
struct Similarity {
  double a = 1, b = 0, dx = 0, dy = 0;

  [[nodiscard]] Point of(Point p) const { return {a * p.x - b * p.y + dx, b * p.x + a * p.y + dy}; }
};

/// Where InsightFace puts the landmarks in an image of `size` x `size` pixels: its five points for
/// 112 x 112, scaled.
Landmarks template_landmarks(std::int64_t size);

/// The similarity, without a reflection, with the least sum of squared distances between what
/// becomes of `from` and `to` (Umeyama, TPAMI 1991; in the plane it has a closed form). REQUIRES:
/// not all of `from` are one point.
Similarity estimate_similarity(const Landmarks& from, const Landmarks& to);

/// out [to.height, to.width, 3]: each pixel is the one of rgb [from.height, from.width, 3] that
/// `placed` leads to it, interpolated bilinearly; outside of the image there is black. Where
/// `placed` makes the image smaller than half, the image is first resized (resize.h), so that it
/// does not alias. As OpenCV's warpAffine with INTER_LINEAR but for the exact rounding.
void warp(std::span<const std::uint8_t> rgb, ImageSize from, const Similarity& placed, ImageSize to,
          std::span<std::uint8_t> out);

}  // namespace pfc
