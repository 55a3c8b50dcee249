#include "data/images/align.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace pfc {
namespace {

std::vector<std::uint8_t> grey_image(ImageSize size, std::uint8_t value) {
  return std::vector<std::uint8_t>(static_cast<std::size_t>(size.height * size.width * 3), value);
}

std::vector<std::uint8_t> warped(ImageSize from, const Similarity& placed, ImageSize to) {
  std::vector<std::uint8_t> out = grey_image(to, 7);
  warp(grey_image(from, 200), from, placed, to, out);
  return out;
}

TEST(Align, FindsTheSimilarityBetweenLandmarks) {
  const Similarity placed{.a = 0.6, .b = -0.2, .dx = 5, .dy = 40};
  const Landmarks to = template_landmarks(112);
  // The mapping from output to input positions.
  const double square = placed.a * placed.a + placed.b * placed.b;
  Landmarks from;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const double u = to[i].x - placed.dx, v = to[i].y - placed.dy;
    from[i] = {(placed.a * u + placed.b * v) / square, (placed.a * v - placed.b * u) / square};
  }
  const Similarity found = estimate_similarity(from, to);
  EXPECT_NEAR(found.a, placed.a, 1e-12);
  EXPECT_NEAR(found.b, placed.b, 1e-12);
  EXPECT_NEAR(found.dx, placed.dx, 1e-9);
  EXPECT_NEAR(found.dy, placed.dy, 1e-9);
}

/// warp() cannot resize the image to its smaller size first, because that is less than a pixel.
TEST(Align, AcceptsAnImageThatBecomesSmallerThanAPixel) {
  for (const double scale : {0.3, 1e-3, 1e-9}) {
    for (const ImageSize from :
         {ImageSize{1, 1}, ImageSize{40, 1}, ImageSize{1, 40}, ImageSize{40, 40}}) {
      EXPECT_EQ(warped(from, {.a = scale, .b = 0, .dx = 5, .dy = 5}, {16, 16}).front(), 0);
    }
  }
}

/// 40 rows of one column become 12 rows, whatever the width.
TEST(Align, ShrinksATallImageToTheGivenHeight) {
  const auto out = warped({40, 1}, {.a = 0.3, .b = 0, .dx = 0, .dy = 0}, {20, 1});
  for (std::size_t y = 0; y < 20; ++y) {
    EXPECT_EQ(out[3 * y] > 0, y < 13) << y;
  }
}

}  // namespace
}  // namespace pfc
