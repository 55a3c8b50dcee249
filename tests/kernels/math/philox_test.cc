// Compares Philox 4x32-10 with Random123's published results (tests/kat_vectors).

#include "kernels/math/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace pfc {
namespace {

struct KnownAnswer {
  std::array<std::uint32_t, 4> counter;
  std::array<std::uint32_t, 2> key;
  std::array<std::uint32_t, 4> answer;
};

TEST(Philox, ReproducesRandom123sKnownAnswers) {
  const std::vector<KnownAnswer> known{
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const KnownAnswer& k : known) {
    const std::uint64_t key = k.key[0] | std::uint64_t{k.key[1]} << 32;
    const Philox4 found =
        philox4x32_10(key, {{k.counter[0], k.counter[1], k.counter[2], k.counter[3]}});
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(found.x[i], k.answer[i]);
  }
}

TEST(Philox, ReturnsDifferentWordsForStreamsStepsAndElements) {
  const std::uint32_t base = random_words(1, Stream::kDropout, 2, 3).x[0];
  EXPECT_NE(base, random_words(2, Stream::kDropout, 2, 3).x[0]);
  EXPECT_NE(base, random_words(1, Stream::kShuffle, 2, 3).x[0]);
  EXPECT_NE(base, random_words(1, Stream::kDropout, 3, 3).x[0]);
  EXPECT_NE(base, random_words(1, Stream::kDropout, 2, 4).x[0]);
  EXPECT_NE(base, random_words(1, Stream::kDropout, 2, 3 + (std::uint64_t{1} << 32)).x[0]);
}

TEST(Philox, UniformNumbersAreBelowOne) {
  EXPECT_EQ(uniform01(0), 0.f);
  EXPECT_LT(uniform01(0xffffffffu), 1.f);
  EXPECT_EQ(uniform01(0x80000000u), 0.5f);
}

}  // namespace
}  // namespace pfc
