// Tests which changes are applied to which images.
#include "data/augment/augmenter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "data/augment/flip.h"
#include "data/images/decode.h"
#include "data/images/resize.h"
#include "tests/support/encoded_images.h"

namespace pfc {
namespace {

using Rgb = std::vector<std::uint8_t>;

constexpr ImageSize kAugmentedSize{32, 24};
constexpr std::uint64_t kSeed = 11;

Rgb original() { return testing::draw_waves(32, 24, 3); }

Rgb augmented(const Augmentation& how, std::int64_t position, std::int64_t epoch = 0,
              std::uint64_t seed = kSeed) {
  Rgb rgb = original();
  Augmenter(how, seed).augment(epoch, position, {rgb, kAugmentedSize});
  return rgb;
}

std::map<std::string, Augmentation> each_alone(double part) {
  return {{"crop", {.flip = false, .crop = part}},
          {"low_resolution", {.flip = false, .low_resolution = part}},
          {"blur", {.flip = false, .blur = part}},
          {"colour", {.flip = false, .colour = part}},
          {"grey", {.flip = false, .grey = part}},
          {"cut_out", {.flip = false, .cut_out = part}}};
}

/// The blur's window of five pixels is larger than these images.
TEST(Augmenter, BlursSmallImages) {
  for (const ImageSize size :
       {ImageSize{1, 1}, ImageSize{2, 2}, ImageSize{2, 9}, ImageSize{9, 1}}) {
    for (std::int64_t position = 0; position < 20; ++position) {
      Rgb rgb(static_cast<std::size_t>(size.height * size.width * 3), 200);
      Augmenter({.flip = false, .blur = 1}, kSeed).augment(0, position, {rgb, size});
      EXPECT_EQ(rgb, Rgb(rgb.size(), 200)) << "an image of one colour does not change";
    }
  }
}

TEST(Augmenter, ChangesTheConfiguredFractionOfImages) {
  constexpr int kImages = 4000;
  for (const auto& [name, how] : each_alone(0.2)) {
    int changed = 0;
    for (int i = 0; i < kImages; ++i) changed += augmented(how, i) != original();
    // Five standard deviations of a binomial distribution.
    EXPECT_NEAR(changed, 0.2 * kImages, 5 * std::sqrt(kImages * 0.2 * 0.8)) << name;
  }
}

TEST(Augmenter, DoesOnlyConfiguredChanges) {
  for (const auto& [name, how] : each_alone(0)) {
    for (int i = 0; i < 100; ++i) EXPECT_EQ(augmented(how, i), original()) << name;
  }
}

TEST(Augmenter, DrawsDifferentStrengthsForImagesEpochsAndSeeds) {
  for (const auto& [name, how] : each_alone(1)) {
    if (name == "grey") continue;  // this change has no strength that varies
    const std::set<Rgb> several{augmented(how, 1),    augmented(how, 2),        augmented(how, 3),
                                augmented(how, 1, 1), augmented(how, 1, 0, 12), augmented(how, 4)};
    // There are only two different blurs, and for such a small image only a few lower resolutions.
    const bool few = name == "blur" || name == "low_resolution";
    EXPECT_GE(several.size(), few ? 2u : 6u) << name;
  }
}

TEST(Augmenter, IsAPureFunctionOfSeedEpochAndPosition) {
  const Augmentation all{.flip = true,
                         .crop = 0.5,
                         .low_resolution = 0.5,
                         .blur = 0.5,
                         .colour = 0.5,
                         .grey = 0.5,
                         .cut_out = 0.5};
  Augmenter used(all, kSeed);
  std::vector<Rgb> forwards(50, original());
  for (std::size_t i = 0; i < 50; ++i) {
    used.augment(3, static_cast<std::int64_t>(i), {forwards[i], kAugmentedSize});
  }
  for (std::size_t i = 50; i-- > 0;) {
    Rgb again = original();
    used.augment(3, static_cast<std::int64_t>(i), {again, kAugmentedSize});
    EXPECT_EQ(again, forwards[i]);
    EXPECT_EQ(again, augmented(all, static_cast<std::int64_t>(i), 3));
  }
}

TEST(Augmenter, MakesTheSameChangesWhetherOrNotItAlsoFlips) {
  const Augmentation grey{.flip = false, .grey = 0.3};
  const Augmentation both{.flip = true, .grey = 0.3};
  for (int i = 0; i < 200; ++i) {
    Rgb alone = augmented(grey, i);
    if (flips(kSeed, 0, i)) flip_horizontally(alone, kAugmentedSize.width);
    EXPECT_EQ(augmented(both, i), alone);
  }
}

/// Two positions above a billion must not have the same random numbers.
TEST(Augmenter, DrawsDifferentNumbersForPositionsAboveABillion) {
  const Augmentation how{.flip = false, .colour = 1};
  const std::int64_t far = std::int64_t{1} << 40;
  EXPECT_NE(augmented(how, far), augmented(how, far + 1));
  EXPECT_NE(augmented(how, far), augmented(how, 0));
}

TEST(Augmenter, AcceptsTheSmallestImages) {
  const Augmentation all{.flip = true,
                         .crop = 1,
                         .low_resolution = 1,
                         .blur = 1,
                         .colour = 1,
                         .grey = 1,
                         .cut_out = 1};
  for (int position = 0; position < 50; ++position) {
    Rgb rgb = testing::draw_waves(16, 16, 1);
    Augmenter(all, kSeed).augment(0, position, {rgb, {16, 16}});
  }
}

/// The means over many images of a region's area, of its width / height, and of its relative
/// position.
struct RegionMeans {
  double area = 0, log_ratio = 0, top = 0, left = 0;

  void add(const ImageRegion& r, ImageSize image) {
    const auto part = [](std::int64_t a, std::int64_t b) {
      return static_cast<double>(a) / static_cast<double>(b);
    };
    area += part(r.height * r.width, image.height * image.width);
    log_ratio += std::log(part(r.width, r.height));
    top += part(r.top, std::max<std::int64_t>(1, image.height - r.height));
    left += part(r.left, std::max<std::int64_t>(1, image.width - r.width));
  }
};

/// Draws as torchvision's RandomResizedCrop.get_params() does, with other random numbers.
ImageRegion region_of_torchvision(std::mt19937& random, ImageSize image) {
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution(low, high)(random);
  };
  const auto area = static_cast<double>(image.height * image.width);
  for (int i = 0; i < 10; ++i) {
    const double part = area * uniform(0.08, 1);
    const double ratio = std::exp(uniform(std::log(3.0 / 4), std::log(4.0 / 3)));
    const std::int64_t w = std::lrint(std::sqrt(part * ratio));
    const std::int64_t h = std::lrint(std::sqrt(part / ratio));
    if (w < 1 || w > image.width || h < 1 || h > image.height) continue;
    return {std::uniform_int_distribution<std::int64_t>(0, image.height - h)(random),
            std::uniform_int_distribution<std::int64_t>(0, image.width - w)(random), h, w};
  }
  return {};
}

constexpr ImageSize kPhotograph{375, 500};

TEST(RandomResizedCrop, DrawsRegionsLikeTorchvision) {
  constexpr int kDraws = 20000;
  std::mt19937 random(1);
  const Augmenter augmenter({.random_resized_crop = RandomResizedCrop{}}, kSeed);
  RegionMeans ours, theirs;
  for (int i = 0; i < kDraws; ++i) {
    const ImageRegion region = augmenter.region(2, i, kPhotograph);
    ASSERT_TRUE(region.top >= 0 && region.top + region.height <= kPhotograph.height);
    ASSERT_TRUE(region.left >= 0 && region.left + region.width <= kPhotograph.width);
    ours.add(region, kPhotograph);
    theirs.add(region_of_torchvision(random, kPhotograph), kPhotograph);
  }
  // Five standard errors of a difference of two means. Of the measured numbers, uniform ones have
  // the largest error.
  const double error = 5 * std::sqrt(2.0 / 12 / kDraws) * kDraws;
  EXPECT_NEAR(ours.area, theirs.area, error);
  EXPECT_NEAR(ours.log_ratio, theirs.log_ratio, error);
  EXPECT_NEAR(ours.top, theirs.top, error);
  EXPECT_NEAR(ours.left, theirs.left, error);
}

TEST(RandomResizedCrop, IsAFunctionOfSeedEpochAndPosition) {
  const Augmentation how{.random_resized_crop = RandomResizedCrop{}};
  const Augmenter augmenter(how, kSeed);
  const ImageRegion region = augmenter.region(1, 7, kPhotograph);
  EXPECT_EQ(Augmenter(how, kSeed).region(1, 7, kPhotograph), region);
  EXPECT_NE(Augmenter(how, kSeed + 1).region(1, 7, kPhotograph), region);
  EXPECT_NE(augmenter.region(2, 7, kPhotograph), region);
  EXPECT_NE(augmenter.region(1, 8, kPhotograph), region);
}

/// In such an image no drawn region fits, so the result is the centre, cut to the nearest allowed
/// aspect ratio.
TEST(RandomResizedCrop, TakesTheCentreOfAVeryWideOrHighImage) {
  const RandomResizedCrop whole{.scale = {1, 1}};
  const Augmenter augmenter({.random_resized_crop = whole}, kSeed);
  EXPECT_EQ(augmenter.region(0, 0, {30, 900}), (ImageRegion{0, 430, 30, 40}));
  EXPECT_EQ(augmenter.region(0, 0, {900, 30}), (ImageRegion{430, 0, 40, 30}));
  EXPECT_EQ(augmenter.region(0, 0, {1, 1}), (ImageRegion{0, 0, 1, 1}));
}

TEST(RandomResizedCrop, ResizesTheDrawnRegionOfTheImage) {
  const Augmenter augmenter({.random_resized_crop = RandomResizedCrop{}}, kSeed);
  const Rgb whole = testing::draw_waves(60, 80, 3);
  ImageDecoder decoder;
  for (std::int64_t position = 0; position < 20; ++position) {
    Rgb shown(static_cast<std::size_t>(kAugmentedSize.height * kAugmentedSize.width * 3));
    augmenter.decode(decoder, testing::encode_png(whole, 60, 80), 0, position,
                     {shown, kAugmentedSize});
    const ImageRegion region = augmenter.region(0, position, {60, 80});
    Rgb part(static_cast<std::size_t>(region.height * region.width * 3)), expected(shown.size());
    copy_region(whole, {60, 80}, region, part);
    resize_rgb(part, region.size(), kAugmentedSize, expected);
    EXPECT_EQ(shown, expected);
  }
}

}  // namespace
}  // namespace pfc
