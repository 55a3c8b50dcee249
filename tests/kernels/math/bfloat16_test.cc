// Tests rounding to bfloat16: to nearest by definition, stochastic by its mean, and the vectorised
// kernels of every instruction set by comparison with the formulas.
#include "kernels/math/bfloat16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu/vector/vector_kernels.h"

namespace pfc {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> awkward_numbers() {
  std::vector<float> numbers{
      0.f,    -0.f,      1.f,        -1.f,        3e38f,      -3.4e38f,
      1e-40f, kInfinity, -kInfinity, 1.00390625f, 1.01171875f};  // the last two are half-way cases
  std::mt19937 generator(3);
  for (int i = 0; i < 4000; ++i) {
    const std::uint32_t bits = generator();
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    if (!std::isnan(x)) numbers.push_back(x);
  }
  return numbers;
}

TEST(BFloat16, RoundsToNearestWithTiesToEven) {
  for (const float x : awkward_numbers()) {
    const float rounded = float_of(nearest_bfloat16(x));
    if (std::isinf(x)) {
      EXPECT_EQ(rounded, x);
      continue;
    }
    const float toward_zero = float_of(static_cast<BFloat16>(bits_of(x) >> 16));
    const float away = float_of(static_cast<BFloat16>((bits_of(x) >> 16) + 1));
    const double below = std::abs(double{x} - double{toward_zero});
    const double above = std::isinf(away) ? std::ldexp(1.0, 128) - std::abs(double{x})
                                          : std::abs(double{away} - double{x});
    const bool even = ((bits_of(x) >> 16) & 1) == 0;
    EXPECT_EQ(rounded, below < above || (below == above && even) ? toward_zero : away) << x;
  }
}

TEST(BFloat16, RoundingKeepsNaN) {
  for (const std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xffc00000u, 0xff80ffffu}) {
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    EXPECT_TRUE(std::isnan(float_of(nearest_bfloat16(x))));
    EXPECT_TRUE(std::isnan(float_of(stochastic_bfloat16(x, 0xffff))));
  }
  EXPECT_EQ(float_of(stochastic_bfloat16(kInfinity, 0xffff)), kInfinity);
}

TEST(BFloat16, StochasticRoundingKeepsTheMean) {
  for (const float x : {1.001f, -0.3337f, 7e-12f}) {
    double sum = 0;
    constexpr int kDraws = 65536;
    for (std::uint32_t random = 0; random < kDraws; ++random) {
      sum += double{float_of(stochastic_bfloat16(x, random))};
    }
    EXPECT_NEAR(sum / kDraws, double{x}, 1e-6 * std::abs(double{x}));
  }
}

// Every bit is set in half of the words, over elements, classes and steps, and no two bits of a
// word are correlated.
TEST(RoundingBits, AreUniformAndIndependent) {
  constexpr int kElements = 512, kRows = 64;
  std::vector<std::uint32_t> words;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const RoundingKey key = rounding_key(2048, 1 + row % 8, row / 8);
    for (std::uint32_t i = 0; i < kElements; ++i) words.push_back(rounding_bits(key, i));
  }
  const double n = kElements * kRows;
  const double tolerance = 5 * std::sqrt(0.25 / n);  // five standard deviations
  for (int bit = 0; bit < 32; ++bit) {
    for (int other = 0; other < bit; ++other) {
      double set = 0, agree = 0, agree_with_next = 0;
      for (std::size_t i = 0; i < words.size(); ++i) {
        const std::uint32_t next = words[(i + 1) % words.size()];
        set += (words[i] >> bit) & 1u;
        agree += ~((words[i] >> bit) ^ (words[i] >> other)) & 1u;
        agree_with_next += ~((words[i] >> bit) ^ (next >> other)) & 1u;
      }
      EXPECT_NEAR(set / n, 0.5, tolerance) << bit;
      EXPECT_NEAR(agree / n, 0.5, tolerance) << bit << ' ' << other;
      EXPECT_NEAR(agree_with_next / n, 0.5, tolerance) << bit << ' ' << other;
    }
  }
}

class EachInstructionSet : public ::testing::TestWithParam<const VectorKernels*> {};

TEST_P(EachInstructionSet, RoundsAndWidensLikeTheFormulas) {
  const std::vector<float> numbers = awkward_numbers();
  const auto n = static_cast<std::int64_t>(numbers.size());
  std::vector<BFloat16> rounded(numbers.size());
  std::vector<float> widened(numbers.size());
  GetParam()->to_bfloat16(numbers.data(), rounded.data(), n);
  GetParam()->to_float(rounded.data(), widened.data(), n);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    ASSERT_EQ(rounded[i], nearest_bfloat16(numbers[i])) << numbers[i];
    ASSERT_EQ(bits_of(widened[i]), bits_of(float_of(rounded[i])));
  }
}

TEST_P(EachInstructionSet, DrawsTheSameWordsAsTheScalarGenerator) {
  constexpr std::uint64_t kOverflow =
      (std::uint64_t{1} << 32) - 7;  // 7 blocks before the counter's lower half overflows
  for (const std::uint64_t first : {std::uint64_t{0}, kOverflow}) {
    for (const std::uint32_t late : {0u, 1u << 31}) {
      const RandomBlocks blocks{.seed = 0x123456789abcdefull,
                                .stream = Stream::kClassSampling,
                                .a = 5,
                                .late = late,
                                .first = first,
                                .blocks = 37};
      std::vector<std::uint8_t> hits(37);
      const std::uint32_t limit = 5000000;
      GetParam()->blocks_below(blocks, limit, hits.data());
      for (std::uint64_t i = 0; i < hits.size(); ++i) {
        const Philox4 phases = random_words(blocks.seed, Stream::kSamplePhase, 0, first + i);
        const std::uint32_t a = late > 0 && phases.x[0] >= late ? 6 : 5;
        const Philox4 words = random_words(blocks.seed, blocks.stream, a, first + i);
        for (unsigned k = 0; k < 4; ++k) {
          ASSERT_EQ((hits[i] >> k) & 1u, (words.x[k] >> 8) < limit ? 1u : 0u) << i << ' ' << k;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, EachInstructionSet,
                         ::testing::ValuesIn(runnable_vector_kernels().begin(),
                                             runnable_vector_kernels().end()),
                         [](const auto& test) {
                           std::string name = test.param->name;
                           std::erase_if(name, [](char c) { return !std::isalnum(c); });
                           return name;
                         });

}  // namespace
}  // namespace pfc
