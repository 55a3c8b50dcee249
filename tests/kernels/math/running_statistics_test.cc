#include "kernels/math/running_statistics.h"

#include <gtest/gtest.h>

namespace pfc {
namespace {

TEST(RunningStatistics, UseTheUnbiasedVariance) {
  float mean = 0, variance = 0;
  update_running(running_statistics_rule(1.f, 5), 3.f, 8.f, mean, variance);
  EXPECT_EQ(mean, 3.f);
  EXPECT_EQ(variance, 10.f);
}

TEST(RunningStatistics, UseTheBiasedVarianceOfOneRow) {
  float mean = 0, variance = 0;
  update_running(running_statistics_rule(1.f, 1), 3.f, 8.f, mean, variance);
  EXPECT_EQ(variance, 8.f);
}

TEST(RunningStatistics, KeepOneMinusMomentumOfTheirValue) {
  float mean = 4, variance = 2;
  update_running(running_statistics_rule(0.25f, 1), 0.f, 6.f, mean, variance);
  EXPECT_EQ(mean, 3.f);
  EXPECT_EQ(variance, 3.f);
}

}  // namespace
}  // namespace pfc
