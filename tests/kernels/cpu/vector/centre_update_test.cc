// Compares updates of one row of class centres with the optimizer's formulas, for every
// instruction set and every precision of the centres.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cpu/vector/vector_kernels.h"

namespace pfc {
namespace {

constexpr std::int64_t kRowSize = 100;  // not a multiple of the vector size

enum class NumberKind { kFloat, kHalf, kInt8, kFp8 };

/// A row in memory, whose numbers are stored as one of the kinds.
class Numbers {
 public:
  Numbers(NumberKind kind, const std::vector<float>& values)
      : kind_(kind), floats_(values), halves_(values.size()), codes_(values.size()) {
    std::ranges::transform(values, halves_.begin(), [](float x) { return nearest_bfloat16(x); });
    if (!is_one_byte()) return;
    const OneByteFormat format =
        kind == NumberKind::kInt8 ? OneByteFormat::kInt8 : OneByteFormat::kFp8;
    scale_ = best_vector_kernels().write_one_byte_row(
        {.format = format, .codes = codes_.data(), .n = std::ssize(codes_)}, {}, floats_.data());
  }
  void* data() {
    if (is_one_byte()) return codes_.data();
    return kind_ == NumberKind::kHalf ? static_cast<void*>(halves_.data()) : floats_.data();
  }
  float* scale() { return is_one_byte() ? &scale_ : nullptr; }
  float operator[](std::size_t i) const {
    switch (kind_) {
      case NumberKind::kFloat:
        return floats_[i];
      case NumberKind::kHalf:
        return float_of(halves_[i]);
      case NumberKind::kInt8:
        return Int8Numbers::decode<float>(std::uint32_t{codes_[i]}) * scale_;
      default:
        return Fp8Numbers::decode<float>(std::uint32_t{codes_[i]}) * scale_;
    }
  }
  /// Expects that number i is `want` up to rounding errors of float32, or for fewer bits, that it
  /// is one of the two numbers next to `want`.
  void expect_rounded(std::size_t i, double want) const {
    EXPECT_NEAR(double{(*this)[i]}, want, step_at(std::abs(want)) + 1e-7);
  }

 private:
  [[nodiscard]] bool is_one_byte() const {
    return kind_ == NumberKind::kInt8 || kind_ == NumberKind::kFp8;
  }
  [[nodiscard]] double step_at(double x) const {
    if (kind_ == NumberKind::kFloat) return 1e-5 * x;
    if (kind_ == NumberKind::kHalf) return x / 128;
    return kind_ == NumberKind::kInt8 ? double{scale_}
                                      : std::max(x / 8, std::ldexp(double{scale_}, -9));
  }

  NumberKind kind_;
  std::vector<float> floats_;
  std::vector<BFloat16> halves_;
  std::vector<std::uint8_t> codes_;
  float scale_ = 0;
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
            .weight_scale = weight_.scale(),
            .momentum_scale = momentum_.scale(),
            .new_weight = new_weight_.data(),
            .new_momentum = new_momentum_.data(),
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
  CaughtUpCentre copied() {
    return {.n = kRowSize,
            .weight = weight_.data(),
            .momentum = momentum_.data(),
            .weight_scale = weight_.scale(),
            .momentum_scale = momentum_.scale()};
  }
  static NumberKind weight_kind(CentrePrecision precision) {
    if (precision == CentrePrecision::kInt8) return NumberKind::kInt8;
    if (precision == CentrePrecision::kFp8) return NumberKind::kFp8;
    return precision == CentrePrecision::kBf16 ? NumberKind::kHalf : NumberKind::kFloat;
  }
  static NumberKind state_kind(CentrePrecision precision) {
    if (is_one_byte(precision)) return NumberKind::kInt8;
    return precision == CentrePrecision::kFp32 ? NumberKind::kFloat : NumberKind::kHalf;
  }

  const VectorKernels& kernels_ = *std::get<0>(GetParam());
  const CentrePrecision precision_ = std::get<1>(GetParam());
  const CatchUp missed_{.ww = 0.96f, .wv = -0.4f, .vw = 0.03f, .vv = 0.6f};
  const CatchUp adamw_missed_{.ww = 0.96f, .wv = -0.02f, .vv = 0.6f, .second = 0.9f, .eps = 1e-3f};
  const std::vector<float> gradient_ = random_row(0.1, 1);
  Numbers weight_{weight_kind(precision_), random_row(0.05, 2)};
  Numbers momentum_{state_kind(precision_), random_row(0.2, 3)};
  Numbers second_{state_kind(precision_), std::vector<float>(kRowSize, 0.02f)};
  std::vector<float> new_weight_ = std::vector<float>(kRowSize), new_momentum_ = new_weight_;
};

class CentreAdamW : public CentreUpdate {};

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
    momentum_.expect_rounded(i, want_v[i]);
    weight_.expect_rounded(i, want_w[i]);
    stored += double{weight_[i]} * double{weight_[i]};
  }
  EXPECT_NEAR(squares, stored, 1e-5 * stored);  // the squares of the numbers after rounding
}

TEST_P(CentreUpdate, AgreesWithSgdWithoutMomentum) {
  const SgdOptions o{.lr = 0.1f, .momentum = 0.f, .weight_decay = 0.05f};
  for (const CatchUp* missed : {static_cast<const CatchUp*>(nullptr), &missed_}) {
    const Numbers w = weight_;
    CentreRow without = row();
    without.momentum = nullptr;
    without.momentum_scale = nullptr;
    without.missed = missed;
    kernels_.centre_sgd(precision_, o, without);
    for (std::size_t i = 0; i < kRowSize; ++i) {
      const double now = (missed == nullptr ? 1.0 : double{missed->ww}) * double{w[i]};
      const double across = double{gradient_[i]} - now * 4.0 * 0.25;
      weight_.expect_rounded(i, now - 0.1 * (across + 0.05 * now));
    }
  }
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
    momentum_.expect_rounded(i, want_v);
    weight_.expect_rounded(i, now_w - 0.1 * want_v);
    stored += double{weight_[i]} * double{weight_[i]};
  }
  EXPECT_NEAR(squares, stored, 1e-5 * stored);
}

TEST_P(CentreUpdate, StoresACentreAfterItsMissedUpdates) {
  const Numbers w = weight_, v = momentum_;
  CentreRow missing = row();
  missing.missed = &missed_;
  const double squares = kernels_.centre_settle(precision_, missing);
  double stored = 0;
  for (std::size_t i = 0; i < kRowSize; ++i) {
    weight_.expect_rounded(i, caught_up_weight(w, v, i));
    momentum_.expect_rounded(i, caught_up_momentum(w, v, i));
    stored += double{weight_[i]} * double{weight_[i]};
  }
  EXPECT_NEAR(squares, stored, 1e-5 * stored);
}

TEST_P(CentreUpdate, CopiesACentre) {
  std::vector<float> floats(kRowSize);
  std::vector<BFloat16> halves(kRowSize);
  CaughtUpCentre centre = copied();
  centre.floats = floats.data();
  const double squares = kernels_.centre_caught_up(precision_, centre);
  EXPECT_EQ(squares, kernels_.centre_squares(precision_, row()));
  centre.floats = nullptr;
  centre.halves = halves.data();
  EXPECT_EQ(kernels_.centre_caught_up(precision_, centre), squares);
  for (std::size_t i = 0; i < kRowSize; ++i) {
    EXPECT_EQ(floats[i], weight_[i]);
    EXPECT_EQ(halves[i], nearest_bfloat16(floats[i]));
  }
}

TEST_P(CentreUpdate, CopiesACentreAfterItsMissedUpdates) {
  for (const float length : {1.f, 1e-22f, 1e+22f}) {
    const CatchUp missed{.ww = length * missed_.ww, .wv = length * missed_.wv};
    std::vector<float> floats(kRowSize);
    std::vector<BFloat16> halves(kRowSize);
    CaughtUpCentre centre = copied();
    centre.missed = &missed;
    centre.floats = floats.data();
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

TEST_P(CentreAdamW, AgreesWithAdamW) {
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
    momentum_.expect_rounded(i, want_m[i]);
    second_.expect_rounded(i, want_s[i]);
    weight_.expect_rounded(i, want_w[i]);
  }
}

TEST_P(CentreAdamW, AppliesAdamWsMissedUpdatesFirst) {
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
    momentum_.expect_rounded(i, want_m);
    second_.expect_rounded(i, want_s);
    weight_.expect_rounded(
        i, now * (1 - 0.01 * 0.1) - 0.01 * want_m / (1 - std::pow(0.9, 3)) / denominator);
  }
}

TEST_P(CentreAdamW, StoresACentreAfterAdamWsMissedUpdates) {
  const Numbers w = weight_, m = momentum_, s = second_;
  CentreRow missing = adamw_row();
  missing.missed = &adamw_missed_;
  kernels_.centre_settle(precision_, missing);
  for (std::size_t i = 0; i < kRowSize; ++i) {
    weight_.expect_rounded(i, adamw_weight(w, m, s, i));
    momentum_.expect_rounded(i, double{adamw_missed_.vv} * double{m[i]});
    second_.expect_rounded(i, double{adamw_missed_.second} * double{s[i]});
  }
}

TEST_P(CentreAdamW, ReadsACentreAfterAdamWsMissedUpdates) {
  std::vector<float> floats(kRowSize);
  CaughtUpCentre centre = copied();
  centre.second = second_.data();
  centre.missed = &adamw_missed_;
  centre.floats = floats.data();
  kernels_.centre_caught_up(precision_, centre);
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
    Numbers centre(weight_kind(precision_), random_row(length, 5));
    double want = 0;
    for (std::size_t i = 0; i < kRowSize; ++i) want += double{centre[i]} * double{centre[i]};
    const double squares = kernels_.centre_squares(
        precision_, {.n = kRowSize, .weight = centre.data(), .weight_scale = centre.scale()});
    EXPECT_NEAR(squares, want, 1e-5 * want);
  }
}

std::string vector_and_precision_name(
    const std::tuple<const VectorKernels*, CentrePrecision>& parameter) {
  std::string name = std::get<0>(parameter)->name;
  std::erase_if(name, [](char c) { return !std::isalnum(c); });
  constexpr const char* kNames[] = {"Fp32", "Bf16Momentum", "Bf16", "Int8", "Fp8"};
  return name + kNames[static_cast<int>(std::get<1>(parameter))];
}

const auto kKernels =
    ::testing::ValuesIn(runnable_vector_kernels().begin(), runnable_vector_kernels().end());

INSTANTIATE_TEST_SUITE_P(
    InstructionSets, CentreUpdate,
    ::testing::Combine(kKernels,
                       ::testing::Values(CentrePrecision::kFp32, CentrePrecision::kBf16Momentum,
                                         CentrePrecision::kBf16, CentrePrecision::kInt8,
                                         CentrePrecision::kFp8)),
    [](const auto& test) { return vector_and_precision_name(test.param); });
INSTANTIATE_TEST_SUITE_P(InstructionSets, CentreAdamW,
                         ::testing::Combine(kKernels,
                                            ::testing::Values(CentrePrecision::kFp32,
                                                              CentrePrecision::kBf16Momentum,
                                                              CentrePrecision::kBf16)),
                         [](const auto& test) { return vector_and_precision_name(test.param); });

}  // namespace
}  // namespace pfc
