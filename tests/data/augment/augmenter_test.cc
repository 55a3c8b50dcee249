// Tests which changes are applied to which images.
#include "data/augment/augmenter.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "data/augment/flip.h"
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

/// A window of five pixels is larger than these images.
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
    if (name == "grey") continue;  // has no strength
    const std::set<Rgb> several{augmented(how, 1),    augmented(how, 2),        augmented(how, 3),
                                augmented(how, 1, 1), augmented(how, 1, 0, 12), augmented(how, 4)};
    // There are only two blurs, and few lower resolutions of such a small image.
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

TEST(Augmenter, ChangesDoNotDependOnOtherChanges) {
  const Augmentation grey{.flip = false, .grey = 0.3};
  const Augmentation both{.flip = true, .grey = 0.3};
  for (int i = 0; i < 200; ++i) {
    Rgb alone = augmented(grey, i);
    if (flips(kSeed, 0, i)) flip_horizontally(alone, kAugmentedSize.width);
    EXPECT_EQ(augmented(both, i), alone);
  }
}

/// Positions in a huge data set have different random numbers.
TEST(Augmenter, DistinguishesPositionsAboveABillion) {
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

}  // namespace
}  // namespace pfc
