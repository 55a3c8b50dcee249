#include "model/networks/activation_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/model/networks/backbone_testing.h"

namespace pfc {
namespace {

TEST(Place, TensorsAliveAtTheSameTimeNeverOverlap) {
  std::mt19937 engine(7);
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < 300; ++i) {
    const int first = static_cast<int>(engine() % 100);
    lifetimes.push_back({.bytes = 1 + static_cast<std::int64_t>(engine() % 10'000),
                         .first = first,
                         .last = first + static_cast<int>(engine() % 20)});
  }
  const Placement placement = place(lifetimes);
  for (std::size_t a = 0; a < lifetimes.size(); ++a) {
    EXPECT_EQ(placement.offsets[a] % 64, 0);
    EXPECT_LE(placement.offsets[a] + lifetimes[a].bytes, placement.bytes);
    for (std::size_t b = 0; b < a; ++b) {
      const bool together =
          lifetimes[a].first <= lifetimes[b].last && lifetimes[b].first <= lifetimes[a].last;
      const bool apart = placement.offsets[a] + lifetimes[a].bytes <= placement.offsets[b] ||
                         placement.offsets[b] + lifetimes[b].bytes <= placement.offsets[a];
      EXPECT_TRUE(apart || !together) << a << " and " << b;
    }
  }
}

TEST(Place, ChainOfTensorsAlternatesBetweenTwoOffsets) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 10; ++i) chain.push_back({.bytes = 640, .first = i, .last = i + 1});
  EXPECT_EQ(place(chain).bytes, 2 * 640);
}

TEST(Place, NeedsNoMemoryWithoutTensors) { EXPECT_EQ(place({}).bytes, 0); }

TEST(ActivationPlan, InPlaceTensorSharesMemoryUntilBothTensorsEnd) {
  const auto ops = testing::cpu_ops();
  Tensor a(nullptr, {16});
  Tensor b(nullptr, {4, 4});
  Tensor c(nullptr, {16});
  ActivationPlan plan;
  plan.make(a);
  plan.advance();
  plan.make_in_place_of(b, a);
  plan.advance();
  plan.make(c);
  plan.use(b);
  const auto buffer = plan.allocate(*ops);
  EXPECT_EQ(a.data, b.data);
  EXPECT_NE(c.data, b.data);
  EXPECT_EQ(buffer->bytes(), 128U);
}

TEST(ActivationPlan, RejectsUseOfATensorBeforeItIsMade) {
  Tensor a(nullptr, {16});
  ActivationPlan plan;
  EXPECT_THROW(plan.use(a), std::logic_error);
  plan.make(a);
  EXPECT_THROW(plan.make(a), std::logic_error);
}

}  // namespace
}  // namespace pfc
