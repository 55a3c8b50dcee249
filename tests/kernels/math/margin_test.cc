// Compares the margin's formulas with finite differences, and a softmax split over workers with
// one over all classes.
#include "kernels/math/margin.h"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "kernels/math/row_statistics.h"

namespace pfc {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr auto kExact = MarginGradient::kExact;
constexpr auto kStraightThrough = MarginGradient::kStraightThrough;

// With most of these margins, m1 theta + m2 is above pi at some theta; with one of them, it is
// below 0 at some theta.
const std::vector<Margin> kMargins = {{1, 0.5, 0},  {1, 0, 0.35},    {1, 0.3, 0.2}, {1.35, 0, 0},
                                      {2, 0, 0},    {2, 0.1, 0.1},   {4, 0, 0},     {3.7, 0.6, 0.2},
                                      {1, -0.4, 0}, {0.9, 0.4, 0.15}};

Angle angle_of(double theta) {
  return {.cos = std::cos(theta), .sin = std::sin(theta), .inverse_a = 1, .inverse_b = 1};
}

// Returns the angles theta in (0, pi) at which m1 theta + m2 is a multiple of pi.
std::vector<double> borders_of(const Margin& m) {
  std::vector<double> borders;
  for (int k = -2; k < 8; ++k) {
    const double theta = (k * kPi - m.m2) / m.m1;
    if (theta > 1e-3 && theta < kPi - 1e-3) borders.push_back(theta);
  }
  return borders;
}

TEST(Margin, TargetIsTheCosineWithAllThreeMargins) {
  for (const Margin& m : kMargins) {
    for (const double theta : {0.0, 1e-6, 0.3, 1.5, 2.9, 3.14159265358979}) {
      const double a = m.m1 * theta + m.m2;
      const double cosine = std::cos(a) - m.m3;
      EXPECT_NEAR(margin_target(m, kStraightThrough, angle_of(theta)), cosine, 1e-14);
      if (a < 0 || a > kPi) continue;
      EXPECT_NEAR(margin_target(m, kExact, angle_of(theta)), cosine, 1e-14);
    }
  }
}

TEST(Margin, ExactTargetBeyondPiEqualsThatOfSphereFace) {
  const Margin four{4, 0, 0};
  for (int k = 0; k < 4; ++k) {
    const double theta = (k + 0.3) * kPi / 4;
    const double psi = (k % 2 == 0 ? 1 : -1) * std::cos(4 * theta) - 2 * k;
    EXPECT_NEAR(margin_target(four, kExact, angle_of(theta)), psi, 1e-14) << k;
  }
  // With m1 = 2, an angle of 90 degrees becomes pi. There the cosine has its minimum, and its
  // continuation starts.
  const Margin two{2, 0, 0};
  EXPECT_NEAR(margin_target(two, kExact, angle_of(kPi / 2)), -1, 1e-14);
  EXPECT_NEAR(margin_target(two, kExact, angle_of(kPi * 3 / 4)), -2, 1e-14);
  EXPECT_NEAR(margin_target(two, kExact, angle_of(kPi)), -3, 1e-14);
}

TEST(Margin, ExactTargetDecreasesWithTheAngleAndItsSlopeOverTheCosineIsNotNegative) {
  constexpr int kSteps = 5000;
  for (const Margin& m : kMargins) {
    SCOPED_TRACE(::testing::Message() << m.m1 << " " << m.m2);
    double before = margin_target(m, kExact, angle_of(0));
    for (int i = 1; i <= kSteps; ++i) {
      const Angle angle = angle_of(kPi * i / kSteps);
      const double target = margin_target(m, kExact, angle);
      ASSERT_LT(target, before) << i;
      ASSERT_GE(margin_slope(m, kExact, angle), 0) << i;
      before = target;
    }
  }
}

TEST(Margin, ExactTargetAndItsSlopeAreContinuousAtMultiplesOfPi) {
  for (const Margin& m : kMargins) {
    for (const double theta : borders_of(m)) {
      SCOPED_TRACE(::testing::Message() << m.m1 << " " << m.m2 << " " << theta);
      const double h = 1e-7;
      const Angle below = angle_of(theta - h), at = angle_of(theta), above = angle_of(theta + h);
      for (const Angle& beside : {below, above}) {
        EXPECT_NEAR(margin_target(m, kExact, beside), margin_target(m, kExact, at), 1e-12);
        EXPECT_NEAR(margin_slope(m, kExact, beside), margin_slope(m, kExact, at),
                    2 * m.m1 * m.m1 * h / at.sin);
      }
      EXPECT_NEAR(margin_slope(m, kExact, at), 0, 1e-12);
    }
  }
}

TEST(Margin, ExactSlopeIsTheDerivative) {
  for (const Margin& m : kMargins) {
    for (const double theta : {1e-3, 0.1, 0.7, 1.5, 1.6, 2.4, 3.0, 3.14}) {
      const double h = 1e-5 * std::min(theta, 3.1415926 - theta);
      const double rise = margin_target(m, kExact, angle_of(theta + h)) -
                          margin_target(m, kExact, angle_of(theta - h));
      const double run = -2 * std::sin(theta) * std::sin(h);  // cos(theta + h) - cos(theta - h)
      const double slope = margin_slope(m, kExact, angle_of(theta));
      EXPECT_NEAR(slope, rise / run, 1e-5 * std::max(1.0, std::abs(slope))) << theta;
      EXPECT_EQ(margin_slope(m, kStraightThrough, angle_of(theta)), 1.0);
    }
  }
}

TEST(Margin, ExactGradientIsBoundedAtEveryAngle) {
  for (const Margin& m : kMargins) {
    for (const double theta : {0.0, 1e-15, 1e-12, 1e-9, 1e-6, 3.14159265}) {
      const Angle angle = angle_of(theta);
      const double length = margin_slope(m, kExact, angle) * angle.sin;
      EXPECT_LE(std::abs(length), m.m1 * (1 + 1e-12)) << theta;
    }
    EXPECT_EQ(margin_slope(m, kExact, angle_of(0)), 0.0);
  }
}

/// Compares the derivatives of a target form with difference quotients, at angles away from its
/// kinks.
void expect_derivatives(const Margin& m, TargetForm form, std::initializer_list<double> thetas) {
  for (const double theta : thetas) {
    SCOPED_TRACE(theta);
    constexpr double kH = 1e-6;
    const auto target = [&](double angle, double m2) {
      return margin_target({m.m1, m2, m.m3}, kExact, angle_of(angle), form);
    };
    const double run = -2 * std::sin(theta) * std::sin(kH);
    EXPECT_NEAR(margin_slope(m, kExact, angle_of(theta), form),
                (target(theta + kH, m.m2) - target(theta - kH, m.m2)) / run, 1e-4);
    const SampleMargin sample{.margin = m, .m2_slope = 0.5, .regulariser = 7};
    const double of_m2 = (target(theta, m.m2 + kH) - target(theta, m.m2 - kH)) / (2 * kH);
    if (form != TargetForm::kMagFace) continue;  // only MagFace's m2 depends on the length
    EXPECT_NEAR(length_gradient(sample, form, angle_of(theta), 3, 2), 3 * of_m2 * 0.5 + 14, 1e-6);
  }
}

TEST(TargetForm, AdaFaceLimitsCosineAndAngle) {
  constexpr auto kForm = TargetForm::kAdaFace;
  const Margin away{1, -0.4, 0.8};  // the margin of a long embedding
  EXPECT_NEAR(margin_target(away, kExact, angle_of(1), kForm), std::cos(0.6) - 0.8, 1e-14);
  EXPECT_NEAR(margin_target(away, kExact, angle_of(0.3), kForm), std::cos(1e-3) - 0.8, 1e-14);
  EXPECT_EQ(margin_slope(away, kExact, angle_of(0.3), kForm), 0);
  const Margin towards{1, 0.4, 0};
  EXPECT_NEAR(margin_target(towards, kExact, angle_of(3), kForm), std::cos(kPi - 1e-3), 1e-14);
  EXPECT_EQ(margin_slope(towards, kExact, angle_of(3), kForm), 0);
  const double least = std::acos(1 - 1e-3);
  EXPECT_NEAR(margin_target(towards, kExact, angle_of(0.01), kForm), std::cos(least + 0.4), 1e-14);
  EXPECT_EQ(margin_slope(towards, kExact, angle_of(0.01), kForm), 0);
  EXPECT_EQ(margin_slope(towards, kStraightThrough, angle_of(0.01), kForm), 1);
  for (const Margin& m : {away, towards}) expect_derivatives(m, kForm, {0.3, 0.5, 1.5, 2.7, 3});
}

TEST(TargetForm, MagFaceHasNoMarginBeyondARightAngle) {
  constexpr auto kForm = TargetForm::kMagFace;
  const Margin m{1, 0.6, 0};
  EXPECT_NEAR(margin_target(m, kExact, angle_of(1.5), kForm), std::cos(2.1), 1e-14);
  EXPECT_NEAR(margin_target(m, kExact, angle_of(1.6), kForm), std::cos(1.6), 1e-14);
  expect_derivatives(m, kForm, {0.1, 1, 1.5, 1.6, 3});
}

TEST(TargetForm, CurricularFaceFallsBeyondPi) {
  constexpr auto kForm = TargetForm::kCurricularFace;
  const Margin m{1, 0.5, 0};
  EXPECT_NEAR(margin_target(m, kExact, angle_of(2.6), kForm), std::cos(3.1), 1e-14);
  EXPECT_NEAR(margin_target(m, kExact, angle_of(2.7), kForm), std::cos(2.7) - 0.5 * std::sin(0.5),
              1e-14);
  expect_derivatives(m, kForm, {0.1, 1, 2.6, 2.7, 3});
}

class AngleBetween : public ::testing::Test {
 protected:
  std::vector<float> random(double length) {
    std::normal_distribution<double> normal(0, length / std::sqrt(kSize));
    std::vector<float> v(kSize);
    for (float& x : v) x = static_cast<float>(normal(generator_));
    return v;
  }
  static constexpr int kSize = 200;
  std::mt19937_64 generator_{17};
};

TEST_F(AngleBetween, IsAccurateForSmallAnglesWhereTheCosineIsOne) {
  std::vector<float> a(kSize, 0.f), b(kSize, 0.f);
  a[0] = b[0] = 1.f;
  b[1] = 1e-5f;
  const Angle angle = angle_between(a.data(), b.data(), kSize);
  EXPECT_NEAR(angle.sin, 1e-5, 1e-11);
  EXPECT_EQ(static_cast<float>(angle.cos), 1.f);
}

TEST_F(AngleBetween, IsAccurateForLengthsFrom1em20To1ep20) {
  for (const double length : {1e-20, 1e-3, 1e+20}) {
    const std::vector<float> a = random(length);
    const std::vector<float> b = random(1 / length);
    const Angle angle = angle_between(a.data(), b.data(), kSize);
    EXPECT_NEAR(angle.cos * angle.cos + angle.sin * angle.sin, 1, 1e-12);
    EXPECT_NEAR(angle.inverse_a * length, 1, 0.3);
  }
}

TEST_F(AngleBetween, IsARightAngleForAZeroVector) {
  const std::vector<float> a = random(1);
  const std::vector<float> zero(kSize, 0.f);
  const Angle angle = angle_between(a.data(), zero.data(), kSize);
  EXPECT_EQ(angle.cos, 0);
  EXPECT_EQ(angle.inverse_b, 0);
}

class SplitSoftmax : public ::testing::Test {
 protected:
  static RowStatistics statistics(const std::vector<double>& logits, std::size_t begin,
                                  std::size_t end, std::size_t target) {
    RowStatistics s;
    for (std::size_t j = begin; j < end; ++j) {
      if (j == target) {
        s.target = logits[j];
      } else {
        merge(s, {.max = logits[j], .sum = 1});
      }
    }
    return s;
  }
};

TEST_F(SplitSoftmax, HasTheLossAndProbabilitiesOfTheWholeSoftmax) {
  std::mt19937_64 generator(3);
  for (const double spread : {0.1, 10.0, 400.0}) {  // exp(1000) overflows
    std::normal_distribution<double> normal(0, spread);
    std::vector<double> logits(50);
    for (double& l : logits) l = normal(generator);
    RowStatistics all;
    for (const auto& [begin, end] : {std::pair{0, 20}, {20, 20}, {20, 49}, {49, 50}}) {
      merge(all,
            statistics(logits, static_cast<std::size_t>(begin), static_cast<std::size_t>(end), 33));
    }
    const RowSoftmax got = row_softmax(all);
    long double sum = 0;
    for (const double l : logits) sum += std::exp(static_cast<long double>(l - logits[33]));
    EXPECT_NEAR(got.loss, static_cast<double>(std::log(sum)), 1e-12 * got.loss);
    const double p = got.probability * std::exp(logits[7] - all.max);
    const auto want =
        static_cast<double>(std::exp(static_cast<long double>(logits[7] - logits[33])) / sum);
    EXPECT_NEAR(p, want, 1e-12 * want);
  }
}

TEST_F(SplitSoftmax, IsPreciseIfTheTargetHasAlmostAllProbability) {
  const RowSoftmax got = row_softmax({.max = 0, .sum = 3, .target = 60});
  EXPECT_NEAR(got.loss / (3 * std::exp(-60.0)), 1, 1e-12);
  EXPECT_NEAR(got.others / (3 * std::exp(-60.0)), 1, 1e-12);
}

// The targets are on two workers, and labels are smoothed. -d loss / d logit is the wanted
// probability minus the computed one, and the loss is the cross entropy of the two.
TEST_F(SplitSoftmax, SharesTheWantedProbabilityAmongSeveralTargets) {
  const std::vector<double> targets{5, -2, 3};
  const double others = std::log(4.0), smoothing = 0.1, classes = 3 + 4;
  for (const bool has_others : {true, false}) {
    RowStatistics all;
    merge(all, {.max = 0, .sum = has_others ? 4.0 : 0, .target = targets[0]});
    RowStatistics second;
    add_target(second, targets[1]);
    add_target(second, targets[2]);
    merge(all, second);
    RowSoftmax got = row_softmax(all);
    spread_over_targets(got, all.target, 2);
    double sum = has_others ? std::exp(others) : 0;
    for (const double t : targets) sum += std::exp(t);
    EXPECT_NEAR(got.loss, std::log(sum) - 2, 1e-14);
    if (has_others) smooth_labels(got, smoothing, 2, 6, classes);
    const double e = has_others ? smoothing : 0;
    for (const double t : targets) {
      const TargetShare share{.wanted = 1.0 / 3, .of_targets = std::exp(t - all.target)};
      EXPECT_NEAR(target_pull(got, smoothing, share), (1 - e) / 3 + e / classes - std::exp(t) / sum,
                  1e-15);
    }
    EXPECT_NEAR(got.loss, std::log(sum) - (1 - e) * 2 - e / classes * 6, 1e-14);
  }
}

TEST_F(SplitSoftmax, HasZeroLossWithoutOtherClasses) {
  RowStatistics all;
  merge(all, {});
  merge(all, {.target = -3});
  const RowSoftmax got = row_softmax(all);
  EXPECT_EQ(got.loss, 0);
  EXPECT_EQ(got.others, 0);
}

}  // namespace
}  // namespace pfc
