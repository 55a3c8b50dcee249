#include "worker/tensorboard/histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace pfc {
namespace {

double counted(const Distribution& d) {
  double sum = 0;
  for (const HistogramBucket& bucket : d.buckets) sum += bucket.count;
  return sum;
}

TEST(DistributionOf, DividesTheRangeIntoBucketsOfEqualWidth) {
  std::vector<float> values;
  for (int i = 0; i <= 300; ++i) values.push_back(static_cast<float>(i));
  const Distribution d = distribution_of(values);
  ASSERT_EQ(d.buckets.size(), 30U);
  for (std::size_t i = 0; i < 30; ++i) {
    EXPECT_DOUBLE_EQ(d.buckets[i].left, 10.0 * static_cast<double>(i));
    EXPECT_DOUBLE_EQ(d.buckets[i].right, 10.0 * static_cast<double>(i + 1));
    EXPECT_EQ(d.buckets[i].count, i == 29 ? 11 : 10) << i;  // the largest value is in the last one
  }
  EXPECT_DOUBLE_EQ(d.mean, 150);
}

TEST(DistributionOf, IgnoresValuesThatAreNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Distribution d =
      distribution_of(std::vector<float>{1, std::nanf(""), 3, kInfinity, -kInfinity});
  EXPECT_EQ(counted(d), 2);
  EXPECT_DOUBLE_EQ(d.mean, 2);
  EXPECT_DOUBLE_EQ(d.buckets.front().left, 1);
  EXPECT_DOUBLE_EQ(d.buckets.back().right, 3);
}

TEST(DistributionOf, PutsEqualValuesIntoTheLastBucket) {
  const Distribution d = distribution_of(std::vector<float>{0.5f, 0.5f, 0.5f});
  ASSERT_EQ(d.buckets.size(), 30U);
  EXPECT_EQ(d.buckets.back().count, 3);
  EXPECT_EQ(counted(d), 3);
  EXPECT_DOUBLE_EQ(d.buckets.front().left, 0.5);
  EXPECT_DOUBLE_EQ(d.buckets.back().right, 0.5);
}

TEST(DistributionOf, HasNoBucketsWithoutAFiniteValue) {
  EXPECT_TRUE(distribution_of({}).buckets.empty());
  EXPECT_TRUE(distribution_of(std::vector<float>{std::nanf("")}).buckets.empty());
}

}  // namespace
}  // namespace pfc
