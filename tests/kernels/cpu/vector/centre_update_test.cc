// Compares updates of one row of class centres with the optimizer's formulas, for every
// instruction set and every precision of the centres.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cpu/vector/vector_kernels.h"

namespace pfc {
namespace {

constexpr std::int64_t kRowSize = 100;  // not a multiple of the vector size

/// A row in memory, whose numbers have the storage types of a CentrePrecision.
class Numbers {
 public:
  Numbers(bool half, const std::vector<float>& values) : half_(half), floats_(values) {
    for (float& x : floats_) {
      halves_.push_back(nearest_bfloat16(x));
      if (half) x = float_of(halves_.back());
    }
  }
  void* data() { return half_ ? static_cast<void*>(halves_.data()) : floats_.data(); }
  float operator[](std::size_t i) const { return half_ ? float_of(halves_[i]) : floats_[i]; }

 private:
  bool half_;
  std::vector<float> floats_;
  std::vector<BFloat16> halves_;
};

std::vector<float> random_row(double deviation, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, deviation);
  std::vector<float> row(kRowSize);
  for (float& x : row) x = static_cast<float>(normal(generator));
  return row;
}

class CentreUpdate
    : public ::testing::TestWithParam<std::tuple<const VectorKernels*, CentrePrecision>> {
 protected:
  CentreRow row() {
    return {.n = kRowSize,
            .gradient = gradient_.data(),
            .inverse_norm = 4.f,
            .along = 0.25f,
            .weight = weight_.data(),
            .momentum = momentum_.data(),
            .key = {0x12345678u, 0x9abcdef0u}};
  }
  CentreRow adamw_row() {
    CentreRow r = row();
    r.second = second_.data();
    return r;
  }
  /// Returns the gradient without its component along the centre, in float64.
  [[nodiscard]] double across(std::size_t i) const {
    return double{gradient_[i]} - double{weight_[i]} * 4.0 * 0.25;
  }
  [[nodiscard]] double caught_up_weight(const Numbers& w, const Numbers& v, std::size_t i) const {
    return double{missed_.ww} * double{w[i]} + double{missed_.wv} * double{v[i]};
  }
  [[nodiscard]] double caught_up_momentum(const Numbers& w, const Numbers& v, std::size_t i) const {
    return double{missed_.vw} * double{w[i]} + double{missed_.vv} * double{v[i]};
  }
  /// Same for AdamW's missed updates.
  [[nodiscard]] double adamw_weight(const Numbers& w, const Numbers& m, const Numbers& v,
                                    std::size_t i) const {
    return double{adamw_missed_.ww} * double{w[i]} +
           double{adamw_missed_.wv} * double{m[i]} /
               (std::sqrt(double{v[i]}) + double{adamw_missed_.eps});
  }
  /// Expects that `got` is `want` up to rounding errors of float32; a bfloat16 must be one of the
  /// two bfloat16 numbers next to `want`.
  static void expect_rounded(bool half, float got, double want) {
    EXPECT_NEAR(double{got}, want, std::abs(want) * (half ? 1.0 / 128 : 1e-5) + 1e-7);
  }

  const VectorKernels& kernels_ = *std::get<0>(GetParam());
  const CentrePrecision precision_ = std::get<1>(GetParam());
  const bool half_weight_ = precision_ == CentrePrecision::kBf16;
  const bool half_state_ = precision_ != CentrePrecision::kFp32;
  const CatchUp missed_{.ww = 0.96f, .wv = -0.4f, .vw = 0.03f, .vv = 0.6f};
  const CatchUp adamw_missed_{.ww = 0.96f, .wv = -0.02f, .vv = 0.6f, .second = 0.9f, .eps = 1e-3f};
  const std::vector<float> gradient_ = random_row(0.1, 1);
  Numbers weight_{half_weight_, random_row(0.05, 2)};
  Numbers momentum_{half_state_, random_row(0.2, 3)};
  Numbers second_{half_state_, std::vector<float>(kRowSize, 0.02f)};
};

TEST_P(CentreUpdate, AgreesWithSgd) {
  const SgdOptions o{.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.05f};
  const Numbers w = weight_, v = momentum_;
  std::vector<double> want_v(kRowSize), want_w(kRowSize);
  for (std::size_t i = 0; i < kRowSize; ++i) {
    want_v[i] = 0.9 * double{v[i]} + across(i) + 0.05 * double{w[i]};
    want_w[i] = double{w[i]} - 0.1 * want_v[i];
  }
  const double squares = kernels_.centre_sgd(precision_, o, row());
  double stored = 0;
  for (std::size_t i = 0; i < kRowSize; ++i) {
    expect_rounded(half_state_, momentum_[i], want_v[i]);
    expect_rounded(half_weight_, weight_[i], want_w[i]);
    stored += double{weight_[i]} * double{weight_[i]};
  }
  EXPECT_NEAR(squares, stored, 1e-5 * stored);  // the squares of the numbers after rounding
}

TEST_P(CentreUpdate, AppliesMissedUpdatesFirst) {
  const SgdOptions o{.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.05f};
  const Numbers w = weight_, v = momentum_;
  CentreRow missing = row();
  missing.missed = &missed_;
  const double squares = kernels_.centre_sgd(precision_, o, missing);
  double stored = 0;
  for (std::size_t i = 0; i < kRowSize; ++i) {
    const double now_w = caught_up_weight(w, v, i);
    const double across = double{gradient_[i]} - now_w * 4.0 * 0.25;
    const double want_v = 0.9 * caught_up_momentum(w, v, i) + across + 0.05 * now_w;
    expect_rounded(half_state_, momentum_[i], want_v);
    expect_rounded(half_weight_, weight_[i], now_w - 0.1 * want_v);
    stored += double{weight_[i]} * double{weight_[i]};
  }
  EXPECT_NEAR(squares, stored, 1e-5 * stored);
}

TEST_P(CentreUpdate, SettlesMissedUpdates) {
  const Numbers w = weight_, v = momentum_;
  CentreRow missing = row();
  missing.missed = &missed_;
  const double squares = kernels_.centre_settle(precision_, missing);
  double stored = 0;
  for (std::size_t i = 0; i < kRowSize; ++i) {
    expect_rounded(half_weight_, weight_[i], caught_up_weight(w, v, i));
    expect_rounded(half_state_, momentum_[i], caught_up_momentum(w, v, i));
    stored += double{weight_[i]} * double{weight_[i]};
  }
  EXPECT_NEAR(squares, stored, 1e-5 * stored);
}

TEST_P(CentreUpdate, CopiesACentreAfterItsMissedUpdates) {
  for (const float length : {1.f, 1e-22f, 1e+22f}) {
    const CatchUp missed{.ww = length * missed_.ww, .wv = length * missed_.wv};
    std::vector<float> floats(kRowSize);
    std::vector<BFloat16> halves(kRowSize);
    CaughtUpCentre centre{.n = kRowSize,
                          .weight = weight_.data(),
                          .momentum = momentum_.data(),
                          .missed = missed,
                          .floats = floats.data()};
    const double squares = kernels_.centre_caught_up(precision_, centre);
    centre.floats = nullptr;
    centre.halves = halves.data();
    EXPECT_NEAR(kernels_.centre_caught_up(precision_, centre), squares, 1e-6 * squares);
    double want = 0;
    for (std::size_t i = 0; i < kRowSize; ++i) {
      const double w = double{length} * caught_up_weight(weight_, momentum_, i);
      want += w * w;
      EXPECT_NEAR(double{floats[i]}, w, std::abs(w) * 1e-5 + 1e-7 * double{length});
      EXPECT_EQ(halves[i], nearest_bfloat16(floats[i]));
    }
    EXPECT_NEAR(squares, want, 1e-5 * want);
  }
}

TEST_P(CentreUpdate, AddsTheProjectedGradientAfterMissedUpdates) {
  CentreRow missing = row();
  missing.missed = &missed_;
  std::vector<float> sum(kRowSize, 1.f);
  kernels_.add_centre_gradient(precision_, missing, sum.data());
  for (std::size_t i = 0; i < kRowSize; ++i) {
    const double now = caught_up_weight(weight_, momentum_, i);
    EXPECT_NEAR(sum[i], 1 + double{gradient_[i]} - now * 4.0 * 0.25, 1e-6);
  }
}

TEST_P(CentreUpdate, AgreesWithAdamW) {
  const AdamWOptions o = adamw_options(0.01, 0.1, 3);
  const Numbers w = weight_, m = momentum_, s = second_;
  std::vector<double> want_m(kRowSize), want_s(kRowSize), want_w(kRowSize);
  for (std::size_t i = 0; i < kRowSize; ++i) {
    const double g = across(i);
    want_m[i] = 0.9 * double{m[i]} + 0.1 * g;
    want_s[i] = 0.999 * double{s[i]} + 0.001 * g * g;
    const double denominator = std::sqrt(want_s[i] / (1 - std::pow(0.999, 3))) + 1e-8;
    want_w[i] =
        double{w[i]} * (1 - 0.01 * 0.1) - 0.01 * want_m[i] / (1 - std::pow(0.9, 3)) / denominator;
  }
  kernels_.centre_adamw(precision_, o, adamw_row());
  for (std::size_t i = 0; i < kRowSize; ++i) {
    expect_rounded(half_state_, momentum_[i], want_m[i]);
    expect_rounded(half_state_, second_[i], want_s[i]);
    expect_rounded(half_weight_, weight_[i], want_w[i]);
  }
}

TEST_P(CentreUpdate, AppliesAdamWsMissedUpdatesFirst) {
  const AdamWOptions o = adamw_options(0.01, 0.1, 3);
  const Numbers w = weight_, m = momentum_, s = second_;
  CentreRow missing = adamw_row();
  missing.missed = &adamw_missed_;
  kernels_.centre_adamw(precision_, o, missing);
  for (std::size_t i = 0; i < kRowSize; ++i) {
    const double now = adamw_weight(w, m, s, i);
    const double g = double{gradient_[i]} - now * 4.0 * 0.25;
    const double want_m = 0.9 * double{adamw_missed_.vv} * double{m[i]} + 0.1 * g;
    const double want_s = 0.999 * double{adamw_missed_.second} * double{s[i]} + 0.001 * g * g;
    const double denominator = std::sqrt(want_s / (1 - std::pow(0.999, 3))) + 1e-8;
    expect_rounded(half_state_, momentum_[i], want_m);
    expect_rounded(half_state_, second_[i], want_s);
    expect_rounded(half_weight_, weight_[i],
                   now * (1 - 0.01 * 0.1) - 0.01 * want_m / (1 - std::pow(0.9, 3)) / denominator);
  }
}

TEST_P(CentreUpdate, SettlesAdamWsMissedUpdates) {
  const Numbers w = weight_, m = momentum_, s = second_;
  CentreRow missing = adamw_row();
  missing.missed = &adamw_missed_;
  kernels_.centre_settle(precision_, missing);
  for (std::size_t i = 0; i < kRowSize; ++i) {
    expect_rounded(half_weight_, weight_[i], adamw_weight(w, m, s, i));
    expect_rounded(half_state_, momentum_[i], double{adamw_missed_.vv} * double{m[i]});
    expect_rounded(half_state_, second_[i], double{adamw_missed_.second} * double{s[i]});
  }
}

TEST_P(CentreUpdate, ReadsACentreAfterAdamWsMissedUpdates) {
  std::vector<float> floats(kRowSize);
  kernels_.centre_caught_up(precision_, {.n = kRowSize,
                                         .weight = weight_.data(),
                                         .momentum = momentum_.data(),
                                         .second = second_.data(),
                                         .missed = adamw_missed_,
                                         .floats = floats.data()});
  CentreRow missing = adamw_row();
  missing.missed = &adamw_missed_;
  std::vector<float> sum(kRowSize, 1.f);
  kernels_.add_centre_gradient(precision_, missing, sum.data());
  for (std::size_t i = 0; i < kRowSize; ++i) {
    const double now = adamw_weight(weight_, momentum_, second_, i);
    EXPECT_NEAR(double{floats[i]}, now, std::abs(now) * 1e-5 + 1e-7);
    EXPECT_NEAR(sum[i], 1 + double{gradient_[i]} - now * 4.0 * 0.25, 1e-6);
  }
}

TEST_P(CentreUpdate, AddsTheProjectedGradient) {
  std::vector<float> sum(kRowSize, 1.f);
  kernels_.add_centre_gradient(precision_, row(), sum.data());
  for (std::size_t i = 0; i < kRowSize; ++i) EXPECT_NEAR(sum[i], 1 + across(i), 1e-6);
}

TEST_P(CentreUpdate, SquaresOfTinyAndHugeCentresAreAccurate) {
  for (const double length : {1e-22, 1e-3, 1e+22}) {
    Numbers centre(half_weight_, random_row(length, 5));
    double want = 0;
    for (std::size_t i = 0; i < kRowSize; ++i) want += double{centre[i]} * double{centre[i]};
    EXPECT_NEAR(kernels_.centre_squares(precision_, centre.data(), kRowSize), want, 1e-5 * want);
  }
}

std::string vector_and_precision_name(
    const std::tuple<const VectorKernels*, CentrePrecision>& parameter) {
  std::string name = std::get<0>(parameter)->name;
  std::erase_if(name, [](char c) { return !std::isalnum(c); });
  const CentrePrecision p = std::get<1>(parameter);
  if (p == CentrePrecision::kFp32) return name + "Fp32";
  return name + (p == CentrePrecision::kBf16 ? "Bf16" : "Bf16Momentum");
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, CentreUpdate,
                         ::testing::Combine(::testing::ValuesIn(runnable_vector_kernels().begin(),
                                                                runnable_vector_kernels().end()),
                                            ::testing::Values(CentrePrecision::kFp32,
                                                              CentrePrecision::kBf16Momentum,
                                                              CentrePrecision::kBf16)),
                         [](const auto& test) { return vector_and_precision_name(test.param); });

}  // namespace
}  // namespace pfc
