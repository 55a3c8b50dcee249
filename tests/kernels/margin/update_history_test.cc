// Compares combined missed updates with the same updates applied one by one, in float64.
#include "kernels/margin/update_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace pfc {
namespace {

struct State {
  double w, v;
};

/// Applies the updates one by one, with a gradient of zero.
State updated_one_by_one(State s, std::span<const PastUpdate> updates) {
  for (const PastUpdate& o : updates) {
    s.v = double{o.momentum_or_number} * s.v + double{o.weight_decay} * s.w;
    s.w -= double{o.lr} * s.v;
  }
  return s;
}

State times(const CatchUp& c, State s) {
  return {double{c.ww} * s.w + double{c.wv} * s.v, double{c.vw} * s.w + double{c.vv} * s.v};
}

PastUpdate update(int number, float momentum = 0.9f, float weight_decay = 5e-4f) {
  return {.lr = 0.1f + 0.05f * std::sin(0.01f * static_cast<float>(number)),
          .momentum_or_number = momentum,
          .weight_decay = weight_decay};
}

void expect_caught_up(const UpdateHistory& history, std::span<const std::int32_t> seen) {
  std::vector<std::int64_t> classes;
  for (std::size_t i = 0; i < seen.size(); ++i) classes.push_back(100 + static_cast<int>(i));
  CatchUpPlan plan;
  plan.make(history, seen, 100, classes);
  ASSERT_EQ(plan.index().size(), seen.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const CatchUp& c = plan.table()[plan.index()[i]];
    for (const State start : {State{1, 0}, State{0, 1}, State{0.3, -2}}) {
      const auto missed = history.updates().subspan(static_cast<std::size_t>(seen[i]));
      const State want = updated_one_by_one(start, missed);
      const State got = times(c, start);
      EXPECT_NEAR(got.w, want.w, 2e-7) << seen[i];
      EXPECT_NEAR(got.v, want.v, 2e-7) << seen[i];
    }
  }
}

TEST(UpdateHistory, CatchesUpWithEveryNumberOfMissedUpdates) {
  for (const auto& [momentum, decay] :
       {std::pair{0.9f, 5e-4f}, {0.9f, 0.f}, {0.f, 5e-4f}, {0.f, 0.f}, {0.99f, 0.1f}}) {
    SCOPED_TRACE(momentum);
    UpdateHistory history(OptimizerKind::kSgd);
    for (int n = 1; n <= 150; ++n) history.add(update(n, momentum, decay));
    std::vector<std::int32_t> seen;
    for (std::int32_t s = 0; s <= 150; ++s) seen.push_back(s);
    expect_caught_up(history, seen);
  }
}

TEST(UpdateHistory, CatchesUpWithUpdatesOfManyBlocks) {
  for (const int count : {5000, 5 * UpdateHistory::kBlock + 4096, 64 * 80 + 63}) {
    UpdateHistory history(OptimizerKind::kSgd);
    for (int n = 1; n <= count; ++n) history.add(update(n));
    expect_caught_up(history,
                     std::vector<std::int32_t>{0, 1, 63, 64, 65, 127, 128, 1000, 2900, count - 2049,
                                               count - 2048, count - 1, count});
  }
}

TEST(UpdateHistory, ResultForARowDoesNotDependOnOtherRowsOrOnARestore) {
  UpdateHistory history(OptimizerKind::kSgd), restored(OptimizerKind::kSgd);
  for (int n = 1; n <= 4000; ++n) history.add(update(n));
  restored.restore(history.updates());
  const std::vector<std::int32_t> seen{7, 3999, 12, 4000};
  CatchUpPlan together, alone;
  together.make(history, seen, 0, std::vector<std::int64_t>{0, 1, 2, 3});
  for (const std::int64_t c : {0, 1, 2, 3}) {
    alone.make(restored, seen, 0, std::vector<std::int64_t>{c});
    const CatchUp& a = together.table()[together.index()[static_cast<std::size_t>(c)]];
    const CatchUp& b = alone.table()[alone.index()[0]];
    EXPECT_EQ(std::tie(a.ww, a.wv, a.vw, a.vv), std::tie(b.ww, b.wv, b.vw, b.vv)) << c;
  }
}

TEST(UpdateHistory, PlansNothingForRowsThatAreUpToDate) {
  UpdateHistory history(OptimizerKind::kSgd);
  CatchUpPlan plan;
  plan.make(history, std::vector<std::int32_t>(5, 0), 0, std::vector<std::int64_t>{1, 4});
  EXPECT_EQ(plan.table().size(), 1u);
  EXPECT_EQ(plan.index()[1], 0u);
  plan.make(history, {}, 0, {});
  EXPECT_TRUE(plan.index().empty());
}

class AdamWHistory : public ::testing::Test {
 protected:
  struct Moments {
    double w, m, v;
  };

  static PastUpdate update(int number) {
    return {.lr = 1e-3f * (1 + 0.5f * std::sin(0.3f * static_cast<float>(number))),
            .momentum_or_number = static_cast<float>(number),
            .weight_decay = 0.1f};
  }
  void make(int updates) {
    for (int n = 1; n <= updates; ++n) history_.add(update(n));
  }

  /// Moves like torch.optim.AdamW with a gradient of zero.
  static Moments one_by_one(Moments s, std::span<const PastUpdate> updates) {
    for (const PastUpdate& u : updates) {
      const double number{u.momentum_or_number}, lr{u.lr};
      s.w *= 1 - lr * double{u.weight_decay};
      s.m *= double{AdamWOptions{}.beta1};
      s.v *= double{AdamWOptions{}.beta2};
      const double correction1 = 1 - std::pow(double{AdamWOptions{}.beta1}, number);
      const double correction2 = 1 - std::pow(double{AdamWOptions{}.beta2}, number);
      s.w -= lr * (s.m / correction1) / (std::sqrt(s.v / correction2) + 1e-8);
    }
    return s;
  }
  [[nodiscard]] Moments caught_up(const Moments& s, std::int32_t seen) const {
    CatchUpPlan plan;
    plan.make(history_, std::vector{seen}, 0, std::vector<std::int64_t>{0});
    if (plan.index()[0] == 0) return s;
    const CatchUp& c = plan.table()[plan.index()[0]];
    auto w = static_cast<float>(s.w), m = static_cast<float>(s.m), v = static_cast<float>(s.v);
    apply_adamw(c, w, m, v);
    return {double{w}, double{m}, double{v}};
  }
  [[nodiscard]] std::span<const PastUpdate> since(std::int32_t seen) const {
    return history_.updates().subspan(static_cast<std::size_t>(seen));
  }
  /// Returns the relative error of a centre's move, for a state with this square root of the
  /// second moment.
  [[nodiscard]] double error(std::int32_t seen, double root) const {
    const Moments start{0, root, root * root};
    const double want = one_by_one(start, since(seen)).w;
    return std::abs(caught_up(start, seen).w - want) / std::abs(want);
  }

  void expect_caught_up(const Moments& start, std::int32_t seen) const {
    const Moments want = one_by_one(start, since(seen)), got = caught_up(start, seen);
    EXPECT_NEAR(got.w, want.w, 2e-7) << seen;
    EXPECT_NEAR(got.m, want.m, 2e-7) << seen;
    EXPECT_NEAR(got.v, want.v, 2e-7) << seen;
  }

  UpdateHistory history_{OptimizerKind::kAdamW};
};

TEST_F(AdamWHistory, CatchesUpWithEveryNumberOfMissedUpdates) {
  make(150);
  for (std::int32_t seen = 0; seen <= 150; ++seen) {
    for (const Moments start : {Moments{1, 0, 0}, Moments{0, 1, 1}, Moments{0.3, -0.02, 4e-3}}) {
      expect_caught_up(start, seen);
    }
  }
}

TEST_F(AdamWHistory, CatchesUpWithUpdatesOfManyBlocks) {
  make(9000);  // beta1 to the power of 9000 is 0 in float64
  for (const std::int32_t seen : {0, 1, 63, 64, 65, 1000, 6951, 6952, 8999}) {
    expect_caught_up({0.3, -0.02, 4e-3}, seen);
  }
}

// A combination of missed updates has one eps, which is applied to all second moments.
TEST_F(AdamWHistory, IsAccurateForSecondMomentsFarFromEps) {
  make(60);
  for (const std::int32_t seen : {1, 5, 10, 50}) {
    EXPECT_LT(error(seen, 1e-4), 3e-6) << seen;
    EXPECT_LT(error(seen, 1e-14), 3e-6) << seen;
  }
}

TEST_F(AdamWHistory, WorstErrorShrinksWithTheNumberOfUpdates) {
  make(10'100);
  const auto worst = [&](std::int32_t seen) {
    double most = 0;
    for (double root = 1e-12; root < 1e-2; root *= 2) most = std::max(most, error(seen, root));
    RecordProperty("after_" + std::to_string(seen), std::to_string(most));
    return most;
  };
  EXPECT_LT(worst(1), 0.05);
  EXPECT_LT(worst(10), 0.015);
  EXPECT_LT(worst(100), 6e-4);
  EXPECT_LT(worst(1000), 3e-5);
  EXPECT_LT(worst(10'000), 2e-5);
}

TEST_F(AdamWHistory, OnlyDecaysRowsThatNeverHadAGradient) {
  make(20);
  const Moments got = caught_up({0.5, 0, 0}, 0);
  EXPECT_NEAR(got.w, one_by_one({0.5, 0, 0}, since(0)).w, 1e-7);
  EXPECT_EQ(got.m, 0);
  EXPECT_EQ(got.v, 0);
}

TEST_F(AdamWHistory, DoesNotMoveTheCentreWithoutALearningRate) {
  for (int n = 1; n <= 5; ++n)
    history_.add({.lr = 0, .momentum_or_number = static_cast<float>(n), .weight_decay = 0.1f});
  EXPECT_EQ(caught_up({0.5, 0.25, 0}, 0).w, 0.5);
}

}  // namespace
}  // namespace pfc
