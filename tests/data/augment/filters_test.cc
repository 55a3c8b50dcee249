// Compares the filters with independent code in double precision.
#include "data/augment/filters.h"

#include <gtest/gtest.h>

#include <cmath>
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

/// Returns row or column i of an image that is mirrored repeatedly at its borders.
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
  // The filter rounds its weights to 1/256 and its results to whole numbers.
  EXPECT_LT(worst, 1.5);
}

INSTANTIATE_TEST_SUITE_P(Radii, BlurOfRadius, ::testing::Values(1, 2));

TEST(Filters, KeepAUniformImage) {
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

/// Colours that DALI's color_twist would give. They were computed with NumPy in float64 from the
/// published matrices (dali/operators/image/color/color_twist.h): inverse(Rgb2Yiq) * sat_mat *
/// hue_mat * Rgb2Yiq.
struct Twisted {
  double hue, saturation;
  std::array<std::uint8_t, 3> before;
  std::array<double, 3> after;
};

TEST(Filters, RotateHueAndScaleSaturationAsDaliDoes) {
  for (const Twisted& each :
       std::initializer_list<Twisted>{{20, 1, {200, 150, 120}, {189.622, 159.357, 99.041}},
                                      {20, 1, {40, 90, 220}, {67.922, 71.396, 242.560}},
                                      {20, 1, {10, 240, 60}, {1.001, 226.859, 151.265}},
                                      {20, 1.2, {200, 150, 120}, {195.251, 158.934, 86.452}},
                                      {20, 1.2, {40, 90, 220}, {63.538, 67.708, 255}},
                                      {20, 1.2, {10, 240, 60}, {0, 242.100, 151.291}},
                                      {7, 0.8, {200, 150, 120}, {189.769, 154.832, 121.951}},
                                      {7, 0.8, {40, 90, 220}, {57.368, 84.666, 201.914}},
                                      {340, 1, {200, 150, 120}, {205.731, 142.027, 146.023}},
                                      {0, 1, {10, 240, 60}, {10, 240, 60}}}) {
    std::vector<std::uint8_t> image;
    for (std::int64_t p = 0; p < kFilteredSize.height * kFilteredSize.width; ++p) {
      image.insert(image.end(), each.before.begin(), each.before.end());
    }
    transform_colours({image, kFilteredSize}, hue_and_saturation(each.hue, each.saturation));
    for (std::size_t i = 0; i < image.size(); ++i) {
      ASSERT_NEAR(image[i], each.after[i % 3], 0.6) << each.hue << " " << each.saturation;
    }
  }
}

TEST(Filters, ConvertToGreyByLuma) {
  const std::vector<std::uint8_t> before = noise(4);
  std::vector<std::uint8_t> after = before;
  turn_grey({after, kFilteredSize});
  for (std::size_t p = 0; p < before.size(); p += 3) {
    const double luma = 0.299 * before[p] + 0.587 * before[p + 1] + 0.114 * before[p + 2];
    EXPECT_NEAR(after[p], luma, 0.501);
    EXPECT_TRUE(after[p] == after[p + 1] && after[p] == after[p + 2]);
  }
}

TEST(Filters, CutOutChangesOnlyTheRegion) {
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

TEST(Filters, ZoomOfTheWholeImageChangesNothing) {
  const std::vector<std::uint8_t> before = noise(6);
  std::vector<std::uint8_t> after = before;
  FilterScratch scratch;
  zoom({after, kFilteredSize}, {0, 0, kFilteredSize.height, kFilteredSize.width}, scratch);
  EXPECT_EQ(after, before);
}

TEST(Filters, ZoomFillsTheImageWithItsRegion) {
  std::vector<std::uint8_t> rgb = noise(8);
  const ImageRegion region{.top = 4, .left = 6, .height = 5, .width = 7};
  cut_out({rgb, kFilteredSize}, region);
  FilterScratch scratch;
  zoom({rgb, kFilteredSize}, region, scratch);
  EXPECT_EQ(rgb, std::vector<std::uint8_t>(rgb.size(), 128));
}

}  // namespace
}  // namespace pfc
