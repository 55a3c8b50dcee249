// Filters against the same in double precision, written in another way.
#include "worker/data/augment/filters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "tests/support/encoded_images.h"

namespace pfc {
namespace {

constexpr ImageSize kFilteredSize{17, 23};

std::vector<std::uint8_t> noise(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> rgb(
      static_cast<std::size_t>(kFilteredSize.height * kFilteredSize.width * 3));
  for (std::uint8_t& value : rgb) value = static_cast<std::uint8_t>(random());
  return rgb;
}

/// Row or column i of an image that is mirrored at its borders again and again.
std::int64_t mirror(std::int64_t i, std::int64_t n) {
  const std::int64_t period = 2 * (n - 1);
  i = ((i % period) + period) % period;
  return i < n ? i : period - i;
}

class BlurOfRadius : public ::testing::TestWithParam<int> {};

TEST_P(BlurOfRadius, IsAGaussianWithMirroredBorders) {
  const int radius = GetParam();
  const std::vector<std::uint8_t> before = noise(7);
  std::vector<std::uint8_t> after = before;
  FilterScratch scratch;
  blur({after, kFilteredSize}, radius, scratch);
  const double deviation = 0.3 * (radius - 1) + 0.8;
  double worst = 0;
  for (std::int64_t y = 0; y < kFilteredSize.height; ++y) {
    for (std::int64_t x = 0; x < kFilteredSize.width; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) {
        double sum = 0, weights = 0;
        for (int dy = -radius; dy <= radius; ++dy) {
          for (int dx = -radius; dx <= radius; ++dx) {
            const double w = std::exp(-(dx * dx + dy * dy) / (2 * deviation * deviation));
            const std::int64_t at = (mirror(y + dy, kFilteredSize.height) * kFilteredSize.width +
                                     mirror(x + dx, kFilteredSize.width)) *
                                        3 +
                                    c;
            sum += w * before[static_cast<std::size_t>(at)];
            weights += w;
          }
        }
        const auto at = static_cast<std::size_t>((y * kFilteredSize.width + x) * 3 + c);
        worst = std::max(worst, std::abs(after[at] - sum / weights));
      }
    }
  }
  // Half a step of rounding, and weights in units of 1/256.
  EXPECT_LT(worst, 1.5);
}

INSTANTIATE_TEST_SUITE_P(Radii, BlurOfRadius, ::testing::Values(1, 2));

TEST(Filters, KeepAnEvenImage) {
  std::vector<std::uint8_t> rgb(
      static_cast<std::size_t>(kFilteredSize.height * kFilteredSize.width * 3), 93);
  const std::vector<std::uint8_t> before = rgb;
  FilterScratch scratch;
  const ImagePixels image{rgb, kFilteredSize};
  blur(image, 1, scratch);
  blur(image, 2, scratch);
  lower_resolution(image, {9, 11}, scratch);
  zoom(image, {2, 3, 10, 12}, scratch);
  turn_grey(image);
  transform_colours(image, hue_and_saturation(17, 1.2));
  EXPECT_EQ(rgb, before);
}

/// Hue and saturation in the colour space itself, not by one matrix.
std::array<double, 3> turned(std::array<double, 3> rgb, double hue, double saturation) {
  const auto [r, g, b] = rgb;
  const double y = 0.299 * r + 0.587 * g + 0.114 * b;
  const double i = 0.596 * r - 0.274 * g - 0.321 * b;
  const double q = 0.211 * r - 0.523 * g + 0.311 * b;
  const double length = std::hypot(i, q) * saturation;
  const double angle = std::atan2(q, i) + hue * std::numbers::pi / 180;
  const double i2 = length * std::cos(angle), q2 = length * std::sin(angle);
  return {y + 0.956 * i2 + 0.621 * q2, y - 0.272 * i2 - 0.647 * q2, y - 1.107 * i2 + 1.705 * q2};
}

TEST(Filters, TurnHueAndScaleSaturation) {
  const std::vector<std::uint8_t> before = noise(3);
  for (const auto& [hue, saturation] : {std::pair{0.0, 1.0}, {20.0, 1.2}, {7.0, 0.0}}) {
    std::vector<std::uint8_t> after = before;
    transform_colours({after, kFilteredSize}, hue_and_saturation(hue, saturation));
    for (std::size_t p = 0; p < before.size(); p += 3) {
      const auto expected =
          turned({static_cast<double>(before[p]), static_cast<double>(before[p + 1]),
                  static_cast<double>(before[p + 2])},
                 hue, saturation);
      for (std::size_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(after[p + c], std::clamp(expected[c], 0.0, 255.0), 0.75) << hue;
      }
    }
  }
}

TEST(Filters, TurnGreyByTheLuma) {
  const std::vector<std::uint8_t> before = noise(4);
  std::vector<std::uint8_t> after = before;
  turn_grey({after, kFilteredSize});
  for (std::size_t p = 0; p < before.size(); p += 3) {
    const double luma = 0.299 * before[p] + 0.587 * before[p + 1] + 0.114 * before[p + 2];
    EXPECT_NEAR(after[p], luma, 0.501);
    EXPECT_TRUE(after[p] == after[p + 1] && after[p] == after[p + 2]);
  }
}

TEST(Filters, CutOutItsRegionAndNothingElse) {
  const std::vector<std::uint8_t> before = noise(5);
  std::vector<std::uint8_t> after = before;
  cut_out({after, kFilteredSize}, {.top = 3, .left = 20, .height = 14, .width = 3});
  for (std::int64_t y = 0; y < kFilteredSize.height; ++y) {
    for (std::int64_t x = 0; x < kFilteredSize.width; ++x) {
      const auto at = static_cast<std::size_t>((y * kFilteredSize.width + x) * 3);
      EXPECT_EQ(after[at], y >= 3 && x >= 20 ? 128 : before[at]);
    }
  }
}

TEST(Filters, ZoomOfTheWholeIsTheImage) {
  const std::vector<std::uint8_t> before = noise(6);
  std::vector<std::uint8_t> after = before;
  FilterScratch scratch;
  zoom({after, kFilteredSize}, {0, 0, kFilteredSize.height, kFilteredSize.width}, scratch);
  EXPECT_EQ(after, before);
}

TEST(Filters, ZoomShowsItsRegion) {
  std::vector<std::uint8_t> rgb = noise(8);
  const ImageRegion region{.top = 4, .left = 6, .height = 5, .width = 7};
  cut_out({rgb, kFilteredSize}, region);
  FilterScratch scratch;
  zoom({rgb, kFilteredSize}, region, scratch);
  EXPECT_EQ(rgb, std::vector<std::uint8_t>(rgb.size(), 128));
}

}  // namespace
}  // namespace pfc
