#include "data/order/balanced_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "tests/data/order/chi_squared.h"

namespace pfc {
namespace {

/// Classes 0, 2 and 5 have 1, 3 and 40 images.
std::vector<std::int64_t> uneven_labels() {
  std::vector<std::int64_t> labels(44, 5);
  labels[7] = 0;
  for (const std::size_t i : {3u, 20u, 43u}) labels[i] = 2;
  return labels;
}

std::vector<std::int64_t> balanced_epoch(std::uint64_t seed, std::int64_t epoch,
                                         std::int64_t positions, bool shuffle = true) {
  const BalancedOrder order(uneven_labels(), seed, shuffle);
  std::vector<std::int64_t> images;
  for (std::int64_t p = 0; p < positions; ++p) images.push_back(order.at(epoch, p));
  return images;
}

TEST(BalancedOrder, ShowsEveryClassOnceInEachRound) {
  const std::vector<std::int64_t> labels = uneven_labels();
  const std::vector<std::int64_t> images = balanced_epoch(5, 2, 300);
  for (std::size_t round = 0; round < 100; ++round) {
    std::set<std::int64_t> classes;
    for (std::size_t i = 0; i < 3; ++i) {
      classes.insert(labels[static_cast<std::size_t>(images[3 * round + i])]);
    }
    EXPECT_EQ(classes, (std::set<std::int64_t>{0, 2, 5})) << round;
  }
}

TEST(BalancedOrder, ShowsTheImagesOfAClassEquallyOften) {
  std::map<std::int64_t, int> seen;
  for (const std::int64_t image : balanced_epoch(5, 2, 3 * 125)) ++seen[image];
  for (const auto& [image, times] : seen) {
    const bool small = image == 3 || image == 20 || image == 43;
    if (image == 7) {
      EXPECT_EQ(times, 125);
    } else if (small) {
      EXPECT_TRUE(times == 41 || times == 42) << image;  // 125 rounds / 3 images
    } else {
      EXPECT_TRUE(times == 3 || times == 4) << image;  // 125 rounds / 40 images
    }
  }
  EXPECT_EQ(seen.size(), 44u);
}

TEST(BalancedOrder, DependsOnSeedAndEpoch) {
  EXPECT_EQ(balanced_epoch(5, 2, 300), balanced_epoch(5, 2, 300));
  EXPECT_NE(balanced_epoch(5, 2, 300), balanced_epoch(5, 3, 300));
  EXPECT_NE(balanced_epoch(5, 2, 300), balanced_epoch(6, 2, 300));
}

TEST(BalancedOrder, GoesThroughClassesAndImagesInOrderWithoutShuffle) {
  EXPECT_EQ(balanced_epoch(5, 2, 9, false),
            (std::vector<std::int64_t>{7, 3, 0, 7, 20, 1, 7, 43, 2}));
}

TEST(BalancedOrder, PutsEveryImageOfAClassIntoEveryRoundEquallyOften) {
  const BalancedOrder order(std::vector<std::int64_t>(20, 0), 3, true);
  std::vector<double> counts(20 * 20);
  for (std::int64_t epoch = 0; epoch < 4000; ++epoch) {
    for (std::int64_t p = 0; p < 20; ++p) {
      ++counts[static_cast<std::size_t>(20 * p + order.at(epoch, p))];
    }
  }
  EXPECT_LT(std::abs(testing::chi_squared_deviations(counts)), 5);
}

}  // namespace
}  // namespace pfc
