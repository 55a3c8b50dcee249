#include "model/networks/activation_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/model/networks/backbone_testing.h"

namespace pfc {
namespace {

bool is_alive(const Lifetime& lifetime, int layer) {
  return std::ranges::any_of(lifetime.spans, [&](const LayerSpan& span) {
    return span.first <= layer && layer <= span.last;
  });
}

TEST(TensorPlacement, TensorsAliveAtTheSameTimeNeverOverlap) {
  std::mt19937 engine(7);
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < 300; ++i) {
    const int first = static_cast<int>(engine() % 100);
    lifetimes.push_back({.bytes = 1 + static_cast<std::int64_t>(engine() % 10'000),
                         .spans = {{first, first + static_cast<int>(engine() % 20)}}});
    if (i % 3 == 0) lifetimes.back().spans.push_back({130 - first, 135 - first / 2});
  }
  const Placement placement = place(lifetimes);
  for (std::size_t a = 0; a < lifetimes.size(); ++a) {
    EXPECT_EQ(placement.offsets[a] % 64, 0);
    EXPECT_LE(placement.offsets[a] + lifetimes[a].bytes, placement.bytes);
    for (std::size_t b = 0; b < a; ++b) {
      bool together = false;
      for (int layer = 0; layer < 140; ++layer) {
        together |= is_alive(lifetimes[a], layer) && is_alive(lifetimes[b], layer);
      }
      const bool apart = placement.offsets[a] + lifetimes[a].bytes <= placement.offsets[b] ||
                         placement.offsets[b] + lifetimes[b].bytes <= placement.offsets[a];
      EXPECT_TRUE(apart || !together) << a << " and " << b;
    }
  }
}

TEST(TensorPlacement, ChainOfTensorsAlternatesBetweenTwoOffsets) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 10; ++i) chain.push_back({.bytes = 640, .spans = {{i, i + 1}}});
  EXPECT_EQ(place(chain).bytes, 2 * 640);
}

TEST(TensorPlacement, NeedsNoMemoryWithoutTensors) { EXPECT_EQ(place({}).bytes, 0); }

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

TEST(TensorPlacement, ReusesTheMemoryOfATensorBetweenItsSpans) {
  EXPECT_EQ(
      place({{.bytes = 640, .spans = {{0, 1}, {4, 5}}}, {.bytes = 640, .spans = {{2, 3}}}}).bytes,
      640);
  EXPECT_EQ(
      place({{.bytes = 640, .spans = {{0, 1}, {3, 5}}}, {.bytes = 640, .spans = {{2, 3}}}}).bytes,
      2 * 640);
}

/// A block of layers 1 to 4, which reads `x` and writes `y`, then layer 5 outside the block, and
/// the backward passes: layer 6 is that of layer 5, layer 7 that of layer 4, and so on.
class RecomputedBlock : public ::testing::Test {
 protected:
  void record(bool changes_b, bool reads_b_outside) {
    plan_.make(x_);
    plan_.advance();
    plan_.use(x_);
    plan_.make(a_);
    plan_.advance();
    plan_.use(a_);
    plan_.make(b_);
    plan_.advance();
    if (changes_b) plan_.change(b_);
    plan_.advance();
    plan_.use(b_);
    plan_.make(y_);
    plan_.advance();
    plan_.use(y_);
    if (reads_b_outside) plan_.use(b_);
    plan_.make(other_);
    plan_.advance();
    plan_.use(other_);
    plan_.advance();
    plan_.use(b_);
    plan_.make(late_);
    plan_.advance();
    plan_.use(late_);
  }

  const std::unique_ptr<Ops> ops_ = testing::cpu_ops();
  Tensor x_{nullptr, {16}}, a_{nullptr, {16}}, b_{nullptr, {16}}, y_{nullptr, {16}};
  Tensor other_{nullptr, {16}}, late_{nullptr, {16}};
  ActivationPlan plan_;
};

TEST_F(RecomputedBlock, RunsOnlyLayersThatTheBackwardPassNeeds) {
  record(/*changes_b=*/false, /*reads_b_outside=*/false);
  EXPECT_EQ(plan_.recompute({1, 4}, 7), (std::vector<int>{1, 2}));
}

TEST_F(RecomputedBlock, RunsLayersThatChangeANeededTensorInPlace) {
  record(/*changes_b=*/true, /*reads_b_outside=*/false);
  EXPECT_EQ(plan_.recompute({1, 4}, 7), (std::vector<int>{1, 2, 3}));
}

TEST_F(RecomputedBlock, RunsNoLayerForATensorThatIsKept) {
  record(/*changes_b=*/false, /*reads_b_outside=*/true);
  EXPECT_TRUE(plan_.recompute({1, 4}, 7).empty());
}

TEST_F(RecomputedBlock, RunsNoLayerForATensorThatItsLayerKeeps) {
  record(/*changes_b=*/false, /*reads_b_outside=*/false);
  plan_.keep(b_);
  EXPECT_TRUE(plan_.recompute({1, 4}, 7).empty());
}

TEST_F(RecomputedBlock, KeepsItsInputAndFreesTheRest) {
  record(/*changes_b=*/false, /*reads_b_outside=*/false);
  plan_.recompute({1, 4}, 7);
  const auto buffer = plan_.allocate(*ops_);
  // At most four tensors are alive at the same time: x, b and y in layer 4, and x, a, b and `late`
  // when the block runs again.
  EXPECT_EQ(buffer->bytes(), 4 * 64U);
  for (const Tensor* other : {&a_, &b_, &y_, &other_, &late_}) EXPECT_NE(x_.data, other->data);
  for (const Tensor* other : {&y_, &late_}) EXPECT_NE(b_.data, other->data);
}

TEST(ActivationPlan, RefusesToRunALayerAgainWhoseInputWasOverwritten) {
  Tensor x(nullptr, {16}), a(nullptr, {16}), y(nullptr, {16});
  ActivationPlan plan;
  plan.make(x);
  plan.advance();
  plan.use(x);
  plan.make(a);
  plan.advance();
  plan.make_in_place_of(y, x);
  plan.advance();
  plan.use(a);
  EXPECT_THROW(plan.recompute({1, 1}, 3), std::logic_error);
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
