#include "data/images/align.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/error.h"
#include "data/images/resize.h"

namespace pfc {

namespace {

// From InsightFace, python-package/insightface/utils/face_align.py: arcface_dst.
constexpr Landmarks kTemplate{{{38.2946, 51.6963},
                               {73.5318, 51.5014},
                               {56.0252, 71.7366},
                               {41.5493, 92.3655},
                               {70.7299, 92.2041}}};
constexpr double kTemplateSize = 112;

Point mean(const Landmarks& points) {
  Point sum;
  for (const Point& p : points) {
    sum.x += p.x;
    sum.y += p.y;
  }
  return {sum.x / static_cast<double>(points.size()), sum.y / static_cast<double>(points.size())};
}

/// Returns a channel of a pixel; 0 outside of the image.
double pixel(std::span<const std::uint8_t> rgb, ImageSize size, std::int64_t x, std::int64_t y,
             std::int64_t c) {
  if (x < 0 || y < 0 || x >= size.width || y >= size.height) return 0;
  return rgb[static_cast<std::size_t>((y * size.width + x) * 3 + c)];
}

void sample(std::span<const std::uint8_t> rgb, ImageSize size, Point at, std::uint8_t* out) {
  const double left = std::floor(at.x), top = std::floor(at.y);
  if (!(left >= -1 && top >= -1 && left < static_cast<double>(size.width) &&
        top < static_cast<double>(size.height))) {
    std::fill(out, out + 3, std::uint8_t{0});
    return;
  }
  const double fx = at.x - left, fy = at.y - top;
  const auto x = static_cast<std::int64_t>(left), y = static_cast<std::int64_t>(top);
  for (std::int64_t c = 0; c < 3; ++c) {
    const double above = (1 - fx) * pixel(rgb, size, x, y, c) + fx * pixel(rgb, size, x + 1, y, c);
    const double below =
        (1 - fx) * pixel(rgb, size, x, y + 1, c) + fx * pixel(rgb, size, x + 1, y + 1, c);
    out[c] = static_cast<std::uint8_t>(std::lround((1 - fy) * above + fy * below));
  }
}

/// Same as warp(), but never resizes the image first.
void warp_whole(std::span<const std::uint8_t> rgb, ImageSize from, const Similarity& placed,
                ImageSize to, std::span<std::uint8_t> out) {
  // Inverse mapping: source position of each output pixel.
  const double square = placed.a * placed.a + placed.b * placed.b;
  const double a = placed.a / square, b = -placed.b / square;
  for (std::int64_t y = 0; y < to.height; ++y) {
    for (std::int64_t x = 0; x < to.width; ++x) {
      const double u = static_cast<double>(x) - placed.dx, v = static_cast<double>(y) - placed.dy;
      sample(rgb, from, {a * u - b * v, b * u + a * v},
             out.data() + static_cast<std::size_t>((y * to.width + x) * 3));
    }
  }
}

}  // namespace

Landmarks template_landmarks(std::int64_t size) {
  Landmarks points = kTemplate;
  // Pixel centres are at integers, so the image spans -0.5 to size - 0.5.
  const double scale = static_cast<double>(size) / kTemplateSize;
  for (Point& p : points) p = {(p.x + 0.5) * scale - 0.5, (p.y + 0.5) * scale - 0.5};
  return points;
}

Similarity estimate_similarity(const Landmarks& from, const Landmarks& to) {
  const Point m = mean(from), n = mean(to);
  double along = 0, across = 0, spread = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const double x = from[i].x - m.x, y = from[i].y - m.y;
    const double u = to[i].x - n.x, v = to[i].y - n.y;
    along += x * u + y * v;
    across += x * v - y * u;
    spread += x * x + y * y;
  }
  check(spread > 0, "estimate_similarity: all landmarks are one point");
  const double a = along / spread, b = across / spread;
  return {.a = a, .b = b, .dx = n.x - (a * m.x - b * m.y), .dy = n.y - (b * m.x + a * m.y)};
}

void warp(std::span<const std::uint8_t> rgb, ImageSize from, const Similarity& placed, ImageSize to,
          std::span<std::uint8_t> out) {
  const double scale = std::hypot(placed.a, placed.b);
  check(scale > 0, "warp: the scale must be positive");
  if (scale >= 0.5) return warp_whole(rgb, from, placed, to, out);
  // The scale of the remaining warp differs from 1 only because the sides of `size` are rounded.
  const auto smaller = [&](std::int64_t side) {
    return std::max<std::int64_t>(1, std::llround(static_cast<double>(side) * scale));
  };
  const ImageSize size{smaller(from.height), smaller(from.width)};
  std::vector<std::uint8_t> shrunk(static_cast<std::size_t>(size.height * size.width * 3));
  resize_rgb(rgb, from, size, shrunk);
  // Pixel (x, y) of the small image was at ((x + 0.5) / s - 0.5, ...). Due to rounding, height and
  // width differ in scale by up to one pixel; the similarity uses the longer side's scale.
  const double s = static_cast<double>(std::max(size.width, size.height)) /
                   static_cast<double>(std::max(from.width, from.height));
  const Point origin = placed.of({0.5 / s - 0.5, 0.5 / s - 0.5});
  warp_whole(shrunk, size, {.a = placed.a / s, .b = placed.b / s, .dx = origin.x, .dy = origin.y},
             to, out);
}

}  // namespace pfc
