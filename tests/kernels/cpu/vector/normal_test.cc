// Tests normally distributed numbers in bulk: the same bits as the scalar formula, with every
// instruction set.
#include "kernels/math/normal.h"

#include <gtest/gtest.h>

#include <bit>
#include <cctype>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/normal_row.h"
#include "kernels/cpu/vector/vector_kernels.h"

namespace pfc {
namespace {

constexpr std::int64_t kGroup = kRandomBlocks;  // pairs of a call

class NormalPairs : public ::testing::TestWithParam<const VectorKernels*> {
 protected:
  /// Returns false if the kernel reports that a bit may be wrong. Otherwise compares the pairs with
  /// the formula, and returns true.
  static bool has_the_bits_of_the_formula(const std::vector<std::uint32_t>& words) {
    std::vector<float> numbers(words.size());
    if (!GetParam()->normal_pairs(words.data(), kGroup, numbers.data())) return false;
    for (std::size_t i = 0; i < words.size(); i += 2) {
      const NormalPair pair = box_muller(words[i], words[i + 1]);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(numbers[i]), std::bit_cast<std::uint32_t>(pair.a))
          << words[i] << " " << words[i + 1];
      EXPECT_EQ(std::bit_cast<std::uint32_t>(numbers[i + 1]), std::bit_cast<std::uint32_t>(pair.b))
          << words[i] << " " << words[i + 1];
    }
    return true;
  }
};

TEST_P(NormalPairs, HaveTheBitsOfTheFormulaExceptForVeryFewDoubtfulGroups) {
  std::mt19937 generator(11);
  std::vector<std::uint32_t> words(2 * kGroup);
  constexpr int kGroups = 100'000;
  int doubts = 0;
  for (int i = 0; i < kGroups; ++i) {
    for (std::uint32_t& word : words) word = generator();
    doubts += has_the_bits_of_the_formula(words) ? 0 : 1;
  }
  EXPECT_LT(doubts, 10);  // 0.8 expected
}

// Tests words for which the logarithm, the sine or the cosine is near 0, or changes its formula or
// sign.
TEST_P(NormalPairs, AreExactAtTheEndsOfAllRanges) {
  std::vector<std::uint32_t> radii{3'037'000'498, 3'037'000'499, 3'037'000'500};  // sqrt(1/2)
  for (int bit = 0; bit < 32; ++bit) {
    for (const std::uint32_t more : {0u, 1u, ~0u}) radii.push_back((1u << bit) + more);
    radii.push_back(~(1u << bit));
  }
  int exact = 0, angles = 0;
  for (std::uint32_t eighth = 0; eighth < 8; ++eighth) {
    for (const std::int32_t offset : {-100, -2, -1, 0, 1, 2, 100}) {
      const std::uint32_t angle = (eighth << 29) + static_cast<std::uint32_t>(offset);
      const bool axis = eighth % 2 == 0 && offset == 0;  // its sine or cosine is near 0: doubtful
      for (const std::uint32_t radius : radii) {
        std::vector<std::uint32_t> words;
        for (std::int64_t i = 0; i < kGroup; ++i) words.insert(words.end(), {radius, angle});
        const bool same = has_the_bits_of_the_formula(words);
        EXPECT_FALSE(axis && same) << radius << " " << angle;
        exact += same ? 1 : 0;
      }
      angles += axis ? 0 : 1;
    }
  }
  EXPECT_EQ(exact, angles * std::ssize(radii));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, NormalPairs,
                         ::testing::ValuesIn(runnable_vector_kernels().begin(),
                                             runnable_vector_kernels().end()),
                         [](const auto& test) {
                           std::string name = test.param->name;
                           std::erase_if(name, [](char c) { return !std::isalnum(c); });
                           return name;
                         });

void expect_the_formula(const NormalRow& row, std::size_t size) {
  std::vector<float> numbers(size);
  draw_normal_row(row, numbers);
  for (std::size_t i = 0; i < size; ++i) {
    const Philox4 words =
        random_words(row.seed, row.stream, static_cast<std::uint32_t>(i / 4), row.row);
    const NormalPair pair =
        i % 4 < 2 ? box_muller(words.x[0], words.x[1]) : box_muller(words.x[2], words.x[3]);
    const float expected = row.deviation * (i % 2 == 0 ? pair.a : pair.b);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(numbers[i]), std::bit_cast<std::uint32_t>(expected))
        << row.row << " " << i;
  }
}

TEST(NormalRow, HasTheFormulasBitsAtAnyLength) {
  for (const std::size_t size : {1, 2, 3, 30, 63, 64, 65, 512, 513, 1027, 4096}) {
    SCOPED_TRACE(size);
    expect_the_formula({.seed = 5, .row = (std::uint64_t{1} << 33) + 3, .deviation = 0.01f}, size);
  }
}

// About one of 8000 rows of 512 numbers has a doubtful number. The scalar formula computes it
// again.
TEST(NormalRow, HasTheFormulasBitsInManyRows) {
  for (std::uint64_t row = 0; row < 20'000; ++row) {
    expect_the_formula({.seed = 2048, .row = row, .deviation = 0.01f}, 512);
  }
}

}  // namespace
}  // namespace pfc
