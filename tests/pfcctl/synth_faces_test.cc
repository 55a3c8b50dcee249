#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "pfcctl/synth/draw.h"
#include "pfcctl/synth/face.h"

namespace pfc::synth {
namespace {

constexpr std::uint64_t kSeed = 11;

TEST(Draw, IsAPureFunctionOfSeedPurposeIdentityAndImage) {
  const auto first = [](std::uint64_t seed, Purpose purpose, std::uint32_t k, std::uint32_t i) {
    return Draw(seed, purpose, k, i).word();
  };
  EXPECT_EQ(first(1, Purpose::kIdentity, 2, 3), first(1, Purpose::kIdentity, 2, 3));
  const std::set<std::uint32_t> words{
      first(1, Purpose::kIdentity, 2, 3), first(2, Purpose::kIdentity, 2, 3),
      first(1, Purpose::kImage, 2, 3), first(1, Purpose::kIdentity, 3, 2),
      first(1, Purpose::kIdentity, 2, 4)};
  EXPECT_EQ(words.size(), 5u);
}

TEST(Draw, NormalNumbersHaveTheExpectedMomentsAndStayWithinTheLimit) {
  Draw d(kSeed, Purpose::kIdentity, 0);
  double sum = 0, squares = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = d.normal(10, 2);
    EXPECT_LE(std::abs(x - 10), 2 * 2.3001);
    sum += x;
    squares += (x - 10) * (x - 10);
  }
  EXPECT_NEAR(sum / kDraws, 10, 0.05);
  EXPECT_NEAR(squares / kDraws, 4 * 0.95, 0.15);  // below 4: the tails are clamped
}

using Mean = std::vector<double>;  ///< mean of images, [size, size, 3]

/// Returns the mean of images first .. first + n - 1 of identity k.
Mean mean_of(std::uint32_t k, std::uint32_t first, std::uint32_t n, int size, float difficulty) {
  Mean mean(static_cast<std::size_t>(3 * size * size));
  for (std::uint32_t i = first; i < first + n; ++i) {
    const std::vector<std::uint8_t> rgb = draw_face(kSeed, k, i, size, difficulty).rgb;
    for (std::size_t p = 0; p < mean.size(); ++p) mean[p] += rgb[p] / static_cast<double>(n);
  }
  return mean;
}

double distance(const Mean& a, const Mean& b) {
  double sum = 0;
  for (std::size_t p = 0; p < a.size(); ++p) sum += (a[p] - b[p]) * (a[p] - b[p]);
  return std::sqrt(sum);
}

TEST(DrawFace, IsAPureFunctionOfItsArguments) {
  const auto first = draw_face(kSeed, 3, 5, 32, 0.5f);
  const auto again = draw_face(kSeed, 3, 5, 32, 0.5f);
  EXPECT_EQ(first.rgb, again.rgb);
  EXPECT_EQ(first.quality, again.quality);
  for (const Face& other : {draw_face(12, 3, 5, 32, 0.5f), draw_face(kSeed, 4, 5, 32, 0.5f),
                            draw_face(kSeed, 3, 6, 32, 0.5f), draw_face(kSeed, 3, 5, 32, 0.6f)}) {
    EXPECT_NE(first.rgb, other.rgb);
  }
}

/// Includes the largest index of an identity that a data set can have.
TEST(DrawFace, HalvesOfAPersonsImagesAreMoreAlikeThanTwoPeople) {
  const std::vector<std::uint32_t> people{0, 1, 2, 3, 1000, 1 << 16, 1 << 24, (1 << 24) + 999'999};
  std::vector<Mean> one, two;
  for (const std::uint32_t k : people) {
    one.push_back(mean_of(k, 0, 40, 32, 0));
    two.push_back(mean_of(k, 40, 40, 32, 0));
  }
  for (std::size_t a = 0; a < people.size(); ++a) {
    for (std::size_t b = 0; b < people.size(); ++b) {
      if (a == b) continue;
      EXPECT_LT(distance(one[a], two[a]), distance(one[a], two[b])) << a << " " << b;
    }
  }
}

TEST(DrawFace, DifficultyMakesPeopleMoreAlikeAndTheirImagesMoreDifferent) {
  double people = std::numeric_limits<double>::infinity(), images = 0;
  for (const float difficulty : {0.f, 0.5f, 1.f}) {
    double between = 0, within = 0;
    for (std::uint32_t k = 0; k < 8; k += 2) {
      const Mean one = mean_of(k, 0, 40, 32, difficulty);
      between += distance(one, mean_of(k + 1, 0, 40, 32, difficulty));
      for (std::uint32_t i = 0; i < 10; ++i) {
        within += distance(one, mean_of(k, i, 1, 32, difficulty));
      }
    }
    EXPECT_LT(between, 0.9 * people) << difficulty;
    EXPECT_GT(within, 1.1 * images) << difficulty;
    people = between;
    images = within;
  }
}

/// Pupils and upper lids are the darkest places near the eyes.
TEST(DrawFace, EyesAreAtThePositionsOfAlignedFaces) {
  Mean mean(112 * 112 * 3);
  for (std::uint32_t k = 0; k < 100; ++k) {
    const Mean one = mean_of(k, 0, 1, 112, 0);
    for (std::size_t p = 0; p < mean.size(); ++p) mean[p] += one[p];
  }
  for (const auto& [eye_x, eye_y] : {std::array{38.3, 51.7}, {73.5, 51.5}}) {
    double darkest = std::numeric_limits<double>::infinity(), at_x = 0, at_y = 0;
    for (int y = 46; y <= 62; ++y) {
      for (int x = static_cast<int>(eye_x) - 8; x <= static_cast<int>(eye_x) + 8; ++x) {
        const double green = mean[static_cast<std::size_t>(3 * (112 * y + x) + 1)];
        if (green < darkest) {
          darkest = green;
          at_x = x + 0.5;
          at_y = y + 0.5;
        }
      }
    }
    EXPECT_NEAR(at_x, eye_x, 2);
    EXPECT_NEAR(at_y, eye_y, 3.5);
  }
}

}  // namespace
}  // namespace pfc::synth
