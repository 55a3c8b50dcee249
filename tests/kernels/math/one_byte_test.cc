// Tests one-byte numbers against the definitions of their formats, and the mean and the limits of
// rounding rows with the kernels of every instruction set.
#include "kernels/math/one_byte.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cpu/vector/vector_kernels.h"

namespace pfc {
namespace {

/// Returns the number of an E4M3 code by its definition (OCP 8-bit floating point, table 1).
double e4m3(std::uint32_t code) {
  const std::uint32_t field = code >> 3 & 15, mantissa = code & 7;
  const double number = field == 0 ? std::ldexp(mantissa, -9)
                                   : std::ldexp(1 + mantissa / 8.0, static_cast<int>(field) - 7);
  return code >> 7 == 0 ? number : -number;
}

TEST(OneByte, DecodesByDefinition) {
  for (std::uint32_t code = 0; code < 256; ++code) {
    EXPECT_EQ(Int8Numbers::decode<float>(code), static_cast<std::int8_t>(code)) << code;
    if ((code & 127) == 127) continue;  // a NaN, which is never stored
    EXPECT_EQ(Fp8Numbers::decode<float>(code), e4m3(code)) << code;
  }
}

/// `unused` is a code that is never stored. Neither is `unused` + 128, if that is a code.
template <typename Numbers>
void expect_every_code_is_stored_exactly(std::uint32_t unused) {
  for (std::uint32_t code = 0; code < 256; ++code) {
    if ((code & 127) == (unused & 127) && code >= unused) continue;
    const float x = Numbers::template decode<float>(code);
    for (const float u : {0.f, 0.5f, 0x1.fffffep-1f}) {
      const auto stored = Numbers::template encode<float, std::uint32_t>(x, u);
      EXPECT_EQ(stored.code & 255, code);
      EXPECT_EQ(stored.number, x);
    }
  }
}

TEST(OneByte, StoresItsOwnNumbersExactly) {
  expect_every_code_is_stored_exactly<Int8Numbers>(128);  // 128 is -128
  expect_every_code_is_stored_exactly<Fp8Numbers>(127);   // 127 and 255 are NaN
}

template <typename Numbers>
void expect_neighbours_by_distance(float largest) {
  std::vector<float> numbers;
  for (std::uint32_t code = 0; code < 256; ++code) {
    const float x = Numbers::template decode<float>(code);
    if (std::abs(x) <= largest) numbers.push_back(x);
  }
  std::ranges::sort(numbers);
  std::mt19937 generator(3);
  std::uniform_real_distribution<float> exponent(-14, std::log2(largest));
  for (int i = 0; i < 20000; ++i) {
    const float x = (i % 2 == 0 ? 1.f : -1.f) * std::exp2(exponent(generator));
    const float u = static_cast<float>(generator() >> 8) * 0x1p-24f;
    const auto above = std::ranges::upper_bound(numbers, x);
    const double high = *above, low = *std::prev(above);
    const double part = (double{x} - low) / (high - low);
    // Magnitudes are rounded, so u counts from the number nearer to zero.
    const bool up = x > 0 ? part > double{u} : part >= 1 - double{u};
    const auto stored = Numbers::template encode<float, std::uint32_t>(x, u);
    ASSERT_EQ(stored.number, up ? high : low) << x << ' ' << u;
    ASSERT_EQ(Numbers::template decode<float>(stored.code & 255), stored.number);
  }
}

// Some of these numbers are below 2^-6, so they are subnormal in E4M3.
TEST(OneByte, RoundsUpIfTheFractionIsAboveTheRandomNumber) {
  expect_neighbours_by_distance<Int8Numbers>(127);
  expect_neighbours_by_distance<Fp8Numbers>(448);
}

template <typename Numbers>
void expect_least_scale(float largest) {
  for (const float x : {1.f, 126.f, 127.f, 127.5f, 448.f, 448.1f, 449.f, 3e-20f, 0.3f, 1.5e38f}) {
    const auto scale = double{row_scale<Numbers>(bits_of(x))};
    EXPECT_LE(double{x}, double{largest} * scale);
    EXPECT_GT(double{x}, double{largest} * scale / 2);
    int exponent = 0;
    EXPECT_EQ(std::frexp(scale, &exponent), 0.5) << "a power of two";
  }
  EXPECT_EQ(row_scale<Numbers>(0), 0.f);
  EXPECT_EQ(row_scale<Numbers>(bits_of(1e-40f)), 0x1p-100f);
  for (const float x : {0x1p127f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    EXPECT_TRUE(std::isnan(row_scale<Numbers>(bits_of(x))));
  }
}

TEST(OneByte, ScaleIsTheLeastPowerOfTwoWithoutOverflow) {
  expect_least_scale<Int8Numbers>(127);
  expect_least_scale<Fp8Numbers>(448);
}

using RowCase = std::tuple<const VectorKernels*, OneByteFormat>;

class OneByteRows : public ::testing::TestWithParam<RowCase> {
 protected:
  struct Stored {
    float scale;
    std::vector<std::uint8_t> codes;
    std::vector<float> numbers;
  };
  [[nodiscard]] Stored store(const std::vector<float>& x, const RowRounding& rounding = {}) const {
    Stored s{.scale = 0, .codes = std::vector<std::uint8_t>(x.size()), .numbers = x};
    s.scale = kernels_.write_one_byte_row(row(s), rounding, s.numbers.data());
    return s;
  }
  [[nodiscard]] std::vector<float> read(Stored s) const {
    std::vector<float> x(s.codes.size());
    kernels_.read_one_byte_row(row(s), s.scale, x.data());
    return x;
  }
  [[nodiscard]] OneByteRow row(Stored& s) const {
    return {.format = format_, .codes = s.codes.data(), .n = std::ssize(s.codes)};
  }
  [[nodiscard]] static RowRounding stochastic(std::int64_t update) {
    return {.stochastic = true, .key = rounding_key(7, update, 3)};
  }
  /// Returns the distance between the numbers next to x.
  [[nodiscard]] double step_at(double x, double scale) const {
    if (format_ == OneByteFormat::kInt8) return scale;
    return scale * std::exp2(std::max(std::floor(std::log2(std::abs(x) / scale)), -6.0) - 3);
  }

  const VectorKernels& kernels_ = *std::get<0>(GetParam());
  const OneByteFormat format_ = std::get<1>(GetParam());
};

std::vector<float> normal_row(std::int64_t n, double deviation, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, deviation);
  std::vector<float> row(static_cast<std::size_t>(n));
  for (float& x : row) x = static_cast<float>(normal(generator));
  return row;
}

TEST_P(OneByteRows, AreReadWithTheirRoundedValues) {
  for (const std::int64_t n : {1, 3, 16, 100, 512}) {
    for (const double deviation : {1e-25, 0.04, 1e+30}) {
      const std::vector<float> x = normal_row(n, deviation, 5);
      const Stored nearest = store(x);
      EXPECT_EQ(read(nearest), nearest.numbers);
      const Stored stochastic_row = store(x, stochastic(4));
      EXPECT_EQ(read(stochastic_row), stochastic_row.numbers);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double step = step_at(double{x[i]}, double{nearest.scale});
        EXPECT_LE(std::abs(double{nearest.numbers[i]} - double{x[i]}), step / 2);
        EXPECT_LT(std::abs(double{stochastic_row.numbers[i]} - double{x[i]}), step);
      }
    }
  }
}

TEST_P(OneByteRows, HaveEqualBytesForEqualNumbers) {
  // The largest number is just above half of the format's largest. Rounding often lowers it so far
  // that half the scale fits.
  const float limit = format_ == OneByteFormat::kInt8 ? 63.51f : 224.1f;
  for (int update = 1; update < 200; ++update) {
    std::vector<float> x = normal_row(20, 10, static_cast<unsigned>(update));
    for (float& value : x) value = std::clamp(value, -60.f, 60.f);
    x[3] = update % 2 == 0 ? limit : -limit;
    const Stored first = store(x, stochastic(update));
    const Stored again = store(read(first));
    EXPECT_EQ(again.codes, first.codes);
    EXPECT_EQ(again.scale, first.scale);
  }
}

// Includes numbers far below the row's largest one, which are subnormal in E4M3.
TEST_P(OneByteRows, StochasticRoundingKeepsTheMean) {
  std::vector<float> x{1.f, -0.7031f, 0.3f, 0.04f, -3e-3f, 2e-4f, -3.1e-5f, 1.7e-5f, 2e-6f, 0.f};
  for (int i = 1; i < 40; ++i) x.push_back(static_cast<float>(std::exp2(-i / 2.0) * 0.99));
  constexpr int kUpdates = 20000;
  std::vector<double> sums(x.size());
  double scale = 0;
  for (int update = 1; update <= kUpdates; ++update) {
    const Stored stored = store(x, stochastic(update));
    scale = double{stored.scale};
    for (std::size_t i = 0; i < x.size(); ++i) sums[i] += double{stored.numbers[i]};
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double step = step_at(double{x[i]}, scale);
    const double part = std::fmod(std::abs(double{x[i]}), step) / step;
    const double deviation = step * std::sqrt(part * (1 - part) / kUpdates);
    EXPECT_NEAR(sums[i] / kUpdates, double{x[i]}, 5 * deviation + 1e-7 * step) << x[i];
  }
}

TEST_P(OneByteRows, RandomBitsDependOnTheElementOnly) {
  const std::vector<float> x = normal_row(67, 1, 9);
  const Stored whole = store(x, stochastic(2));
  const std::vector<float> part(x.begin(), x.begin() + 13);
  std::vector<float> padded = part;  // same scale
  padded.push_back(*std::ranges::max_element(x, {}, [](float v) { return std::abs(v); }));
  const Stored shorter = store(padded, stochastic(2));
  ASSERT_EQ(shorter.scale, whole.scale);
  for (std::size_t i = 0; i < part.size(); ++i) EXPECT_EQ(shorter.codes[i], whole.codes[i]);
  RowRounding momentum = stochastic(2);
  momentum.first_element = std::int64_t{1} << 31;
  EXPECT_NE(store(x, momentum).codes, whole.codes);
}

TEST_P(OneByteRows, AgreeForAllInstructionSets) {
  const std::vector<float> x = normal_row(131, 0.3, 2);
  const Stored mine = store(x, stochastic(6));
  Stored first{.scale = 0, .codes = std::vector<std::uint8_t>(x.size()), .numbers = x};
  first.scale = runnable_vector_kernels().front()->write_one_byte_row(row(first), stochastic(6),
                                                                      first.numbers.data());
  EXPECT_EQ(mine.codes, first.codes);
  EXPECT_EQ(mine.scale, first.scale);
}

TEST_P(OneByteRows, StayZerosIfAllNumbersAreZero) {
  const std::vector<float> zeros(50);
  for (const RowRounding& rounding : {RowRounding{}, stochastic(1)}) {
    EXPECT_EQ(store(zeros, rounding).numbers, zeros);
    EXPECT_EQ(read(store(zeros, rounding)), zeros);
  }
}

TEST_P(OneByteRows, KeepAHugeElementAndTheMeanOfTheOthers) {
  std::vector<float> x(64, 1e-3f);
  x[40] = -1e+6f;
  const Stored nearest = store(x);
  EXPECT_NEAR(nearest.numbers[40], -1e+6, 1e+6 / 16);
  double sum = 0;
  const double step = step_at(1e-3, double{nearest.scale});
  for (int update = 1; update <= 3000; ++update) {
    const Stored stored = store(x, stochastic(update));
    for (std::size_t i = 0; i < 40; ++i) sum += double{stored.numbers[i]};
  }
  constexpr double kCount = 3000 * 40;
  EXPECT_NEAR(sum / kCount, 1e-3, 5 * std::sqrt(1e-3 * step / kCount) + 1e-7 * step);
}

TEST_P(OneByteRows, BecomeNanIfOneNumberIsNanOrTooLarge) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::max()}) {
    for (const std::size_t place : {std::size_t{0}, std::size_t{30}, std::size_t{36}}) {
      std::vector<float> x(37, 0.5f);
      x[place] = bad;
      const Stored stored = store(x, stochastic(1));
      for (const float value : read(stored)) EXPECT_TRUE(std::isnan(value));
      for (const float value : stored.numbers) EXPECT_TRUE(std::isnan(value));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, OneByteRows,
                         ::testing::Combine(::testing::ValuesIn(runnable_vector_kernels().begin(),
                                                                runnable_vector_kernels().end()),
                                            ::testing::Values(OneByteFormat::kInt8,
                                                              OneByteFormat::kFp8)),
                         [](const auto& test) {
                           std::string name = std::get<0>(test.param)->name;
                           std::erase_if(name, [](char c) { return !std::isalnum(c); });
                           return name + (std::get<1>(test.param) == OneByteFormat::kInt8 ? "Int8"
                                                                                          : "Fp8");
                         });

}  // namespace
}  // namespace pfc
