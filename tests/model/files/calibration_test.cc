#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/error.h"
#include "model/files/onnx_calibration.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

double squared_error(const std::vector<float>& numbers, double range) {
  double sum = 0;
  for (const double x : numbers) {
    const double steps = std::clamp(std::nearbyint(x / range * 127), -127.0, 127.0);
    sum += std::pow(x - steps * range / 127, 2);
  }
  return sum;
}

float range_of(const std::vector<float>& numbers) {
  ActivationHistograms histograms;
  const std::span all(numbers);
  histograms.add("x", all.first(100));
  histograms.add("x", all.subspan(100));
  return histograms.ranges().at("x");
}

TEST(Calibration, RangeHasNearlyTheLeastSquaredError) {
  std::mt19937 engine(3);
  for (const double outliers : {0.0, 0.001, 0.02}) {
    std::vector<float> numbers(20'000);
    std::normal_distribution<float> normal(0.2f);
    for (float& x : numbers) {
      x = normal(engine) * (std::uniform_real_distribution()(engine) < outliers ? 20.f : 1.f);
    }
    const double largest =
        std::abs(*std::ranges::max_element(numbers, {}, [](float x) { return std::abs(x); }));
    double least = std::numeric_limits<double>::infinity();
    for (double range = largest; range > largest / 30; range *= 0.99) {
      least = std::min(least, squared_error(numbers, range));
    }
    EXPECT_LT(squared_error(numbers, range_of(numbers)), 1.03 * least) << outliers;
  }
}

TEST(Calibration, RangeOfZerosIsPositive) { EXPECT_GT(range_of(std::vector<float>(200)), 0); }

TEST(Calibration, NamesAnActivationThatIsNotFinite) {
  ActivationHistograms histograms;
  histograms.add("layer1.0.conv1", std::vector{1.f, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_THAT(testing::message_of<InputError>([&] { static_cast<void>(histograms.ranges()); }),
              ::testing::HasSubstr("activation layer1.0.conv1 is not finite"));
}

}  // namespace
}  // namespace pfc
