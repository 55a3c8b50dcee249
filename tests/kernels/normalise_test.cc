// Tests the normalisation of rows of very small and very large length, and its gradient.

#include "tests/kernels/on_each_device.h"

namespace pfc {
namespace {

class Normalisation : public OnEachDevice {};

TEST_P(Normalisation, ReturnsUnitRowsForAnyLength) {
  constexpr std::int64_t kSize = 517;
  const std::vector<double> lengths{1e-20, 1e-10, 1e-3, 1, 64, 1e10, 1e20};
  const auto rows = static_cast<std::int64_t>(lengths.size());
  std::vector<float> x;
  std::vector<double> expected, inverse;
  for (const double length : lengths) {
    const std::vector<float> row = random(kSize);
    double squares = 0;
    for (const float v : row) squares += static_cast<double>(v) * static_cast<double>(v);
    for (const float v : row) {
      const double unit = static_cast<double>(v) / std::sqrt(squares);
      expected.push_back(unit);
      x.push_back(static_cast<float>(unit * length));
    }
    inverse.push_back(1 / length);
  }
  const OwnedTensor from = tensor({rows, kSize}, x), y = tensor({rows, kSize}),
                    inverse_norm = tensor({rows});
  ops_->normalise_rows(from, y, inverse_norm);
  EXPECT_LT(relative_error(values(y), expected), 2e-7);
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(values(inverse_norm)[i]) / inverse[i], 1.0, 1e-6);
  }
  ops_->normalise_rows(from, from, inverse_norm);  // in place
  EXPECT_EQ(values(from), values(y));
}

TEST_P(Normalisation, ReturnsZerosAndNoGradientForAZeroRow) {
  const OwnedTensor x = tensor({2, 5}), inverse_norm = tensor({2}), dy = tensor({2, 5}, random(10)),
                    dx = tensor({2, 5}, random(10));
  ops_->normalise_rows(x, x, inverse_norm);
  EXPECT_EQ(values(x), std::vector<float>(10));
  ops_->normalise_rows_backward(dy, x, inverse_norm, dx);
  EXPECT_EQ(values(dx), std::vector<float>(10));
}

TEST_P(Normalisation, GradientAgreesWithFiniteDifferences) {
  constexpr std::int64_t kRows = 6, kSize = 19;
  const std::vector<float> x = random(kRows * kSize, 0.f, 3.f), dy = random(kRows * kSize);
  const OwnedTensor dev_x = tensor({kRows, kSize}, x), y = tensor({kRows, kSize}),
                    inverse_norm = tensor({kRows}), dev_dy = tensor({kRows, kSize}, dy),
                    dx = tensor({kRows, kSize});
  ops_->normalise_rows(dev_x, y, inverse_norm);
  ops_->normalise_rows_backward(dev_dy, y, inverse_norm, dx);
  const auto loss = [&](const std::vector<double>& values) {
    double sum = 0;
    for (std::int64_t r = 0; r < kRows; ++r) {
      double squares = 0, dot = 0;
      for (std::int64_t i = r * kSize; i < (r + 1) * kSize; ++i) {
        const auto at = static_cast<std::size_t>(i);
        squares += values[at] * values[at];
        dot += values[at] * static_cast<double>(dy[at]);
      }
      sum += dot / std::sqrt(squares);
    }
    return sum;
  };
  std::vector<double> expected;
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::vector<double> up(x.begin(), x.end()), down(x.begin(), x.end());
    up[i] += 1e-5;
    down[i] -= 1e-5;
    expected.push_back((loss(up) - loss(down)) / 2e-5);
  }
  EXPECT_LT(relative_error(values(dx), expected), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Normalisation, ::testing::ValuesIn(test_devices()), device_name);

}  // namespace
}  // namespace pfc
