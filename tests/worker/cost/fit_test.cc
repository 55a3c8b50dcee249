#include "worker/cost/fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace pfc {
namespace {

TEST(Fit, FindsCoefficientsThatDifferByTwelveOrdersOfMagnitude) {
  std::vector<Measured> times;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> flops(1e8, 1e11), bytes(1e6, 1e9);
  for (int i = 0; i < 20; ++i) {
    const double f = flops(random), b = bytes(random);
    times.push_back({.features = {1, f, b}, .seconds = 2e-5 + f * 1e-11 + b * 5e-11});
  }
  const std::vector<double> x = fit(times);
  EXPECT_NEAR(x[0] / 2e-5, 1, 1e-4);
  EXPECT_NEAR(x[1] / 1e-11, 1, 1e-6);
  EXPECT_NEAR(x[2] / 5e-11, 1, 1e-6);
  EXPECT_LT(squared_error(times, x), 1e-10);
}

TEST(Fit, CoefficientsAreNotNegative) {
  // A line through these would start below 0.
  const std::vector<Measured> times{{.features = {1, 1}, .seconds = 0.5},
                                    {.features = {1, 2}, .seconds = 2},
                                    {.features = {1, 4}, .seconds = 5}};
  const std::vector<double> x = fit(times);
  EXPECT_EQ(x[0], 0);
  // The minimum of (0.5 - x)^2 / 0.25 + (2 - 2 x)^2 / 4 + (5 - 4 x)^2 / 25.
  EXPECT_NEAR(x[1], (2 + 1 + 0.8) / (4 + 1 + 0.64), 1e-12);
}

TEST(Fit, WeightsEachTimeByItsRelativeError) {
  const std::vector<Measured> times{{.features = {1}, .seconds = 1},
                                    {.features = {1}, .seconds = 3}};
  // The weights are 1 and 1/9: (1 + 3/9) / (1 + 1/9).
  EXPECT_NEAR(fit(times)[0], 1.2, 1e-12);
}

TEST(Fit, IgnoresFeaturesThatNoMeasurementHas) {
  const std::vector<Measured> times{{.features = {0, 2}, .seconds = 1},
                                    {.features = {0, 4}, .seconds = 2}};
  const std::vector<double> x = fit(times);
  EXPECT_EQ(x[0], 0);
  EXPECT_NEAR(x[1], 0.5, 1e-12);
}

}  // namespace
}  // namespace pfc
