#include "data/order/global_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/data/order/chi_squared.h"

namespace pfc {
namespace {

using testing::chi_squared_deviations;

std::vector<std::int64_t> whole_order(std::int64_t images, std::uint64_t seed, std::int64_t epoch) {
  const GlobalOrder order(images, seed, true);
  std::vector<std::int64_t> out;
  for (std::int64_t p = 0; p < images; ++p) out.push_back(order.at(epoch, p));
  return out;
}

TEST(GlobalOrder, ShowsEveryImageOnce) {
  for (const std::int64_t images : {1, 2, 3, 7, 16, 17, 255, 256, 257, 1000, 4096, 20'003}) {
    std::vector<int> seen(static_cast<std::size_t>(images));
    for (const std::int64_t image : whole_order(images, 5, 2)) {
      ASSERT_GE(image, 0);
      ASSERT_LT(image, images);
      ++seen[static_cast<std::size_t>(image)];
    }
    EXPECT_EQ(std::vector<int>(seen.size(), 1), seen) << images << " images";
  }
}

TEST(GlobalOrder, DependsOnSeedAndEpoch) {
  EXPECT_EQ(whole_order(1000, 5, 2), whole_order(1000, 5, 2));
  EXPECT_NE(whole_order(1000, 5, 2), whole_order(1000, 5, 3));
  EXPECT_NE(whole_order(1000, 5, 2), whole_order(1000, 6, 2));
}

TEST(GlobalOrder, IsTheIdentityWithoutShuffle) {
  const GlobalOrder order(10, 5, false);
  for (std::int64_t p = 0; p < 10; ++p) EXPECT_EQ(order.at(3, p), p);
}

TEST(GlobalOrder, IsAPermutationOfMoreImagesThan32BitsCount) {
  const std::int64_t images = (std::int64_t{1} << 40) + 12345;
  const GlobalOrder order(images, 5, true);
  for (std::int64_t p = 0; p < 1000; ++p) {
    const std::int64_t image = order.at(0, images - 1 - p * 1'000'003);
    EXPECT_GE(image, 0);
    EXPECT_LT(image, images);
  }
}

TEST(GlobalOrder, PutsEveryImageAtEveryPositionEquallyOften) {
  for (const std::int64_t images : {3, 8, 20, 300}) {
    const auto n = static_cast<std::size_t>(images);
    std::vector<double> counts(n * n);
    const std::int64_t epochs = images < 100 ? 6'000 : 1'000;
    const GlobalOrder order(images, 11, true);
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
      for (std::size_t p = 0; p < n; ++p) {
        const auto image = static_cast<std::size_t>(order.at(epoch, static_cast<std::int64_t>(p)));
        ++counts[p * n + image];
      }
    }
    EXPECT_LT(std::abs(chi_squared_deviations(counts)), 5) << images << " images";
  }
}

TEST(GlobalOrder, ReachesEveryPermutationOfFewImagesEquallyOften) {
  std::vector<double> counts(24);
  const GlobalOrder order(4, 13, true);
  for (std::int64_t epoch = 0; epoch < 12'000; ++epoch) {
    // The number of this permutation, in the factorial number system.
    std::size_t number = 0;
    for (std::int64_t i = 0; i < 4; ++i) {
      std::size_t smaller = 0;
      for (std::int64_t j = i + 1; j < 4; ++j) smaller += order.at(epoch, j) < order.at(epoch, i);
      number = number * static_cast<std::size_t>(4 - i) + smaller;
    }
    ++counts[number];
  }
  EXPECT_LT(std::abs(chi_squared_deviations(counts)), 5);
}

TEST(GlobalOrder, NeighboursAreUncorrelated) {
  // The correlation of image and position, and that of adjacent images, should be of order 1 /
  // sqrt(n).
  constexpr std::int64_t kImages = 20'000;
  const std::vector<std::int64_t> order = whole_order(kImages, 17, 1);
  const double mean = (kImages - 1) / 2.0;
  double by_position = 0, by_next = 0, variance = 0;
  for (std::int64_t p = 0; p + 1 < kImages; ++p) {
    const double x = static_cast<double>(order[static_cast<std::size_t>(p)]) - mean;
    const double next = static_cast<double>(order[static_cast<std::size_t>(p) + 1]) - mean;
    by_position += x * (static_cast<double>(p) - mean);
    by_next += x * next;
    variance += x * x;
  }
  EXPECT_LT(std::abs(by_position / variance), 5 / std::sqrt(kImages));
  EXPECT_LT(std::abs(by_next / variance), 5 / std::sqrt(kImages));
}

}  // namespace
}  // namespace pfc
