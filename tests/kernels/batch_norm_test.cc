// Compares batch norm with its formulas in float64, and its gradients with finite differences.

#include "tests/kernels/on_each_device.h"

namespace pfc {
namespace {

using Doubles = std::vector<double>;

struct Statistics {
  Doubles mean, variance;
};

template <typename T>
Statistics statistics_of(const std::vector<T>& x, std::int64_t channels) {
  const auto n = static_cast<std::size_t>(channels);
  const double rows = static_cast<double>(x.size() / n);
  Statistics s{Doubles(n), Doubles(n)};
  for (std::size_t i = 0; i < x.size(); ++i) s.mean[i % n] += static_cast<double>(x[i]) / rows;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - s.mean[i % n];
    s.variance[i % n] += d * d / rows;
  }
  return s;
}

struct Parameters {
  std::vector<float> gamma, beta, slope;  // empty slope: no PReLU
};

// Returns y of batch norm and PReLU in float64; slope may be empty.
Doubles norm(const Doubles& x, const Statistics& s, const Parameters& p, float eps) {
  const std::size_t n = s.mean.size();
  Doubles y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % n;
    const double z = static_cast<double>(p.gamma[c]) * (x[i] - s.mean[c]) /
                         std::sqrt(s.variance[c] + static_cast<double>(eps)) +
                     static_cast<double>(p.beta[c]);
    y[i] = z > 0 || p.slope.empty() ? z : z * static_cast<double>(p.slope[c]);
  }
  return y;
}

Doubles doubles(const std::vector<float>& v) { return {v.begin(), v.end()}; }

class BatchNormalisation : public OnEachDevice {
 protected:
  Parameters parameters(std::int64_t channels, bool slope) {
    return {random(channels, 1.f, 0.3f), random(channels),
            slope ? random(channels, 0.25f, 0.1f) : std::vector<float>{}};
  }
  // Returns the tolerance of a narrow activation type, or for float32 the given one.
  [[nodiscard]] double rounded(double error) const {
    return ops_->activation_type() == DType::kFloat32 ? error : tolerance();
  }
  std::vector<float> as_activations(const std::vector<float>& values) {
    return to_host(*ops_, activations({static_cast<std::int64_t>(values.size())}, values));
  }
  // The numbers of rows and channels: multiples and non-multiples of the vector and block sizes,
  // fewer rows than threads, and more rows than a block.
  const std::vector<std::pair<std::int64_t, std::int64_t>> shapes_{
      {1, 5},    {2, 64},    {3, 17},    {7, 3},     {31, 33},
      {129, 64}, {260, 128}, {1001, 19}, {515, 512}, {70, 264}};
};

TEST_P(BatchNormalisation, StatisticsAgreeWithFloat64) {
  for (const auto& [rows, channels] : shapes_) {
    const OwnedTensor x = activations({rows, channels}, random(rows * channels, 0.5f, 2.f));
    const OwnedTensor mean = tensor({channels}), variance = tensor({channels});
    ops_->batch_norm({.rows = rows, .channels = channels})->statistics(x, mean, variance);
    const Statistics expected = statistics_of(values(x), channels);
    EXPECT_LT(relative_error(values(mean), expected.mean), 1e-6) << rows << " x " << channels;
    EXPECT_LT(relative_error(values(variance), expected.variance), 2e-6);
  }
}

TEST_P(BatchNormalisation, StatisticsAreAccurateFarFromZero) {
  constexpr std::int64_t kRows = 20000, kChannels = 33;
  const OwnedTensor x = activations({kRows, kChannels}, random(kRows * kChannels, 100.f, 1.f));
  const OwnedTensor mean = tensor({kChannels}), variance = tensor({kChannels});
  ops_->batch_norm({.rows = kRows, .channels = kChannels})->statistics(x, mean, variance);
  const Statistics expected = statistics_of(values(x), kChannels);
  for (std::size_t c = 0; c < kChannels; ++c) {
    EXPECT_NEAR(values(variance)[c] / expected.variance[c], 1.0, 1e-5);
    EXPECT_NEAR(values(mean)[c] / expected.mean[c], 1.0, 1e-7);
  }
}

TEST_P(BatchNormalisation, StatisticsOfConstantChannelsHaveZeroVariance) {
  const OwnedTensor x = tensor({1000, 20}), mean = tensor({20}), variance = tensor({20});
  ops_->fill(x, 1234.567f);
  ops_->batch_norm({.rows = 1000, .channels = 20})->statistics(x, mean, variance);
  for (const float v : values(variance)) EXPECT_LT(std::abs(v), 1e-7f);
  for (const float v : values(mean)) EXPECT_EQ(v, 1234.567f);
}

TEST_P(BatchNormalisation, StatisticsAreBitIdenticalEveryTime) {
  const OwnedTensor x = activations({1500, 70}, random(1500 * 70));
  const OwnedTensor m1 = tensor({70}), v1 = tensor({70}), m2 = tensor({70}), v2 = tensor({70});
  const std::unique_ptr<BatchNorm> bn = ops_->batch_norm({.rows = 1500, .channels = 70});
  bn->statistics(x, m1, v1);
  bn->statistics(x, m2, v2);
  EXPECT_EQ(values(m1), values(m2));
  EXPECT_EQ(values(v1), values(v2));
}

TEST_P(BatchNormalisation, ForwardAgreesWithFloat64) {
  for (const auto& [rows, channels] : shapes_) {
    for (const bool slope : {false, true}) {
      for (const bool residual : {false, true}) {
        const OwnedTensor dev_x = activations({rows, channels}, random(rows * channels, 1.f, 2.f)),
                          dev_r = activations({rows, channels}, random(rows * channels));
        // The values after the device has rounded them.
        const std::vector<float> x = values(dev_x), r = values(dev_r);
        const Parameters p = parameters(channels, slope);
        const Statistics s = statistics_of(random(64 * channels), channels);
        const std::vector<float> mean(s.mean.begin(), s.mean.end());
        const std::vector<float> variance(s.variance.begin(), s.variance.end());
        Doubles expected = norm(doubles(x), s, p, 1e-5f);
        for (std::size_t i = 0; residual && i < expected.size(); ++i) {
          expected[i] += static_cast<double>(r[i]);
        }
        const OwnedTensor dev_mean = tensor({channels}, mean),
                          dev_variance = tensor({channels}, variance),
                          gamma = tensor({channels}, p.gamma), beta = tensor({channels}, p.beta),
                          y = activations({rows, channels}), y_mean = tensor({channels}),
                          y_variance = tensor({channels});
        const OwnedTensor dev_slope =
            tensor({channels}, slope ? p.slope : std::vector<float>(p.gamma.size()));
        const std::unique_ptr<BatchNorm> bn =
            ops_->batch_norm({.rows = rows, .channels = channels});
        BatchNorm::Forward f{.x = dev_x,
                             .mean = dev_mean,
                             .variance = dev_variance,
                             .gamma = gamma,
                             .beta = beta,
                             .slope = slope ? Tensor(dev_slope) : Tensor(),
                             .residual = residual ? Tensor(dev_r) : Tensor(),
                             .y = y,
                             .y_mean = {},
                             .y_variance = {}};
        bn->forward(f);
        const std::vector<float> plain = values(y);
        EXPECT_LT(relative_error(plain, expected), rounded(1e-6)) << rows << " x " << channels;

        f.y_mean = y_mean;
        f.y_variance = y_variance;
        f.y = residual ? dev_r : dev_x;  // in place
        bn->forward(f);
        EXPECT_LT(relative_error(values(residual ? dev_r : dev_x), plain), 1e-7);
        const Statistics of_y = statistics_of(plain, channels);
        EXPECT_LT(relative_error(values(y_mean), of_y.mean), 1e-6);
        EXPECT_LT(relative_error(values(y_variance), of_y.variance), 2e-6);
      }
    }
  }
}

// Returns a loss, in float64 and with the batch statistics of x, that weights each y by a number in
// dy.
double weighted_loss(const Doubles& x, const Parameters& p, const std::vector<float>& dy) {
  const Statistics s = statistics_of(x, static_cast<std::int64_t>(p.gamma.size()));
  const Doubles y = norm(x, s, p, 1e-5f);
  double loss = 0;
  for (std::size_t i = 0; i < y.size(); ++i) loss += y[i] * static_cast<double>(dy[i]);
  return loss;
}

struct Gradients {
  std::vector<float> dx, dgamma, dbeta, dslope;
};

// Returns the gradients computed by `ops`. REQUIRES: `type` represents x, dy and add exactly.
Gradients gradients_on(Ops& ops, DType type, std::int64_t rows, std::int64_t channels,
                       const std::vector<float>& x, const std::vector<float>& dy,
                       const Parameters& p, const std::vector<float>& add) {
  const bool slope = !p.slope.empty();
  const Shape shape{rows, channels};
  const OwnedTensor dev_x = to_device(ops, shape, x, type),
                    dev_dy = to_device(ops, shape, dy, type),
                    dev_add = to_device(ops, shape, add, type);
  const OwnedTensor gamma = to_device(ops, {channels}, p.gamma),
                    beta = to_device(ops, {channels}, p.beta),
                    dev_slope = to_device(ops, {channels}, slope ? p.slope : p.gamma);
  const OwnedTensor mean(ops, {channels}), variance(ops, {channels}), sum_dz(ops, {channels}),
      sum_dz_xhat(ops, {channels}), dslope(ops, {channels});
  const std::unique_ptr<BatchNorm> bn = ops.batch_norm({.rows = rows, .channels = channels});
  bn->statistics(dev_x, mean, variance);
  BatchNorm::Backward b{.dy = dev_dy,
                        .x = dev_x,
                        .mean = mean,
                        .variance = variance,
                        .gamma = gamma,
                        .beta = beta,
                        .slope = slope ? Tensor(dev_slope) : Tensor(),
                        .sum_dz = sum_dz,
                        .sum_dz_xhat = sum_dz_xhat,
                        .dslope = slope ? Tensor(dslope) : Tensor(),
                        .total_rows = rows,
                        .add = dev_add,
                        .dx = dev_dy};  // in place
  bn->backward_reduce(b);
  bn->backward_apply(b);
  Gradients g{to_host(ops, dev_dy), to_host(ops, sum_dz_xhat), to_host(ops, sum_dz),
              to_host(ops, dslope)};
  for (std::size_t i = 0; i < g.dx.size(); ++i) g.dx[i] -= add[i];
  return g;
}

TEST_P(BatchNormalisation, GradientsAgreeWithFiniteDifferences) {
  constexpr std::int64_t kRows = 13, kChannels = 21;
  for (const bool slope : {false, true}) {
    const std::vector<float> x = random(kRows * kChannels, 0.3f, 1.5f);
    const std::vector<float> dy = random(kRows * kChannels);
    const Parameters p = parameters(kChannels, slope);
    const Gradients found =
        gradients_on(*ops_, DType::kFloat32, kRows, kChannels, x, dy, p, random(kRows * kChannels));
    // Compares with central differences in float64. The step is also exact in float32 parameters.
    const double h = 0x1p-14;
    Doubles dx;
    for (std::size_t i = 0; i < x.size(); ++i) {
      Doubles up = doubles(x), down = doubles(x);
      up[i] += h;
      down[i] -= h;
      dx.push_back((weighted_loss(up, p, dy) - weighted_loss(down, p, dy)) / (2 * h));
    }
    EXPECT_LT(relative_error(found.dx, dx), 1e-5);
    const auto parameter_gradient = [&](std::vector<float> Parameters::*member) {
      Doubles gradient;
      for (std::size_t c = 0; c < kChannels; ++c) {
        Parameters up = p, down = p;
        (up.*member)[c] += static_cast<float>(0x1p-10);
        (down.*member)[c] -= static_cast<float>(0x1p-10);
        const double width =
            static_cast<double>((up.*member)[c]) - static_cast<double>((down.*member)[c]);
        gradient.push_back(
            (weighted_loss(doubles(x), up, dy) - weighted_loss(doubles(x), down, dy)) / width);
      }
      return gradient;
    };
    EXPECT_LT(relative_error(found.dgamma, parameter_gradient(&Parameters::gamma)), 3e-3);
    EXPECT_LT(relative_error(found.dbeta, parameter_gradient(&Parameters::beta)), 3e-3);
    if (slope) {
      EXPECT_LT(relative_error(found.dslope, parameter_gradient(&Parameters::slope)), 1e-5);
    }
  }
}

// Gradients in float64, from the formulas in ops.h.
struct ExpectedGradients {
  Doubles dx, dgamma, dbeta, dslope;
};

ExpectedGradients formulas(const std::vector<float>& x, const std::vector<float>& dy,
                           const Parameters& p) {
  const std::size_t n = p.gamma.size();
  const double rows = static_cast<double>(x.size() / n);
  const Statistics s = statistics_of(x, static_cast<std::int64_t>(n));
  ExpectedGradients g{Doubles(x.size()), Doubles(n), Doubles(n), Doubles(n)};
  Doubles dz(x.size()), xhat(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % n;
    xhat[i] = (static_cast<double>(x[i]) - s.mean[c]) / std::sqrt(s.variance[c] + double{1e-5f});
    const double z = static_cast<double>(p.gamma[c]) * xhat[i] + static_cast<double>(p.beta[c]);
    const bool negative = z <= 0 && !p.slope.empty();
    dz[i] = static_cast<double>(dy[i]) * (negative ? static_cast<double>(p.slope[c]) : 1.0);
    if (negative) g.dslope[c] += static_cast<double>(dy[i]) * z;
    g.dbeta[c] += dz[i];
    g.dgamma[c] += dz[i] * xhat[i];
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % n;
    g.dx[i] = static_cast<double>(p.gamma[c]) / std::sqrt(s.variance[c] + double{1e-5f}) *
              (dz[i] - g.dbeta[c] / rows - xhat[i] * g.dgamma[c] / rows);
  }
  return g;
}

TEST_P(BatchNormalisation, GradientsAgreeWithFloat64) {
  for (const auto& [rows, channels] : shapes_) {
    if (rows < 3) continue;  // with two rows, the gradient is zero except for rounding errors
    for (const bool slope : {false, true}) {
      const std::vector<float> x = as_activations(random(rows * channels, -0.4f, 2.f));
      const std::vector<float> dy = as_activations(random(rows * channels, 0.1f, 1.f));
      const Parameters p = parameters(channels, slope);
      const Gradients found = gradients_on(*ops_, ops_->activation_type(), rows, channels, x, dy, p,
                                           std::vector<float>(x.size()));
      const ExpectedGradients expected = formulas(x, dy, p);
      EXPECT_LT(relative_error(found.dx, expected.dx), tolerance()) << rows << " x " << channels;
      EXPECT_LT(relative_error(found.dgamma, expected.dgamma), 1e-5);
      EXPECT_LT(relative_error(found.dbeta, expected.dbeta), 1e-5);
      if (slope) {
        EXPECT_LT(relative_error(found.dslope, expected.dslope), 1e-5);
      }
    }
  }
}

TEST_P(BatchNormalisation, SumsOneAndAHalfMillionRowsToSixDigits) {
  constexpr std::int64_t kRows = 128 * 112 * 112, kChannels = 2;
  const Shape shape{kRows, kChannels};
  std::vector<float> x = random(65537 * kChannels, 0.5f, 2.f);  // repeated
  x.resize(kRows * kChannels);
  std::vector<float> dy = x;
  for (std::size_t i = 65537 * kChannels; i < x.size(); ++i) x[i] = x[i - 65537 * kChannels];
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = x[x.size() - 1 - i] - 0.4f;
  x = as_activations(x);
  dy = as_activations(dy);
  const Parameters p{{1.f, 0.7f}, {0.1f, -0.2f}, {0.25f, 0.3f}};
  const Gradients found = gradients_on(*ops_, ops_->activation_type(), kRows, kChannels, x, dy, p,
                                       std::vector<float>(x.size()));
  const ExpectedGradients expected = formulas(x, dy, p);
  EXPECT_LT(relative_error(found.dgamma, expected.dgamma), 2e-6);
  EXPECT_LT(relative_error(found.dbeta, expected.dbeta), 2e-6);
  EXPECT_LT(relative_error(found.dslope, expected.dslope), 2e-6);
}

TEST_P(BatchNormalisation, RunningStatisticsAgreeWithTorch) {
  const OwnedTensor mean = tensor({2}, std::vector<float>{1.f, -2.f}),
                    variance = tensor({2}, std::vector<float>{4.f, 9.f}),
                    running_mean = tensor({2}, std::vector<float>{0.f, 1.f}),
                    running_variance = tensor({2}, std::vector<float>{1.f, 1.f});
  ops_->update_running_statistics({.mean = mean,
                                   .variance = variance,
                                   .total_rows = 5,
                                   .momentum = 0.1f,
                                   .running_mean = running_mean,
                                   .running_variance = running_variance});
  EXPECT_LT(relative_error(values(running_mean), Doubles{0.1, 0.7}), 1e-6);
  EXPECT_LT(relative_error(values(running_variance), Doubles{0.9 + 0.1 * 5, 0.9 + 0.1 * 11.25}),
            1e-6);
}

INSTANTIATE_TEST_SUITE_P(Kernels, BatchNormalisation, ::testing::ValuesIn(test_devices()),
                         device_name);

}  // namespace
}  // namespace pfc
