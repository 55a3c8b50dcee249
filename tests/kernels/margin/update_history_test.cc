// Compares combined missed updates with the same updates one after the other, in float64.
#include "kernels/margin/update_history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace pfc {
namespace {

struct State {
  double w, v;
};

/// Applies the updates one after the other, with a gradient of zero.
State updated_one_by_one(State s, std::span<const SgdOptions> updates) {
  for (const SgdOptions& o : updates) {
    s.v = double{o.momentum} * s.v + double{o.weight_decay} * s.w;
    s.w -= double{o.lr} * s.v;
  }
  return s;
}

State times(const CatchUp& c, State s) {
  return {double{c.ww} * s.w + double{c.wv} * s.v, double{c.vw} * s.w + double{c.vv} * s.v};
}

SgdOptions update(int number, float momentum = 0.9f, float weight_decay = 5e-4f) {
  return {.lr = 0.1f + 0.05f * std::sin(0.01f * static_cast<float>(number)),
          .momentum = momentum,
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
    UpdateHistory history;
    for (int n = 1; n <= 150; ++n) history.add(update(n, momentum, decay));
    std::vector<std::int32_t> seen;
    for (std::int32_t s = 0; s <= 150; ++s) seen.push_back(s);
    expect_caught_up(history, seen);
  }
}

TEST(UpdateHistory, CatchesUpWithUpdatesOfManyBlocks) {
  for (const int count : {5000, 5 * UpdateHistory::kBlock + 4096, 64 * 80 + 63}) {
    UpdateHistory history;
    for (int n = 1; n <= count; ++n) history.add(update(n));
    expect_caught_up(history,
                     std::vector<std::int32_t>{0, 1, 63, 64, 65, 127, 128, 1000, 2900, count - 2049,
                                               count - 2048, count - 1, count});
  }
}

TEST(UpdateHistory, GivesARowTheSameBitsBesideAnyRowsAndAfterARestore) {
  UpdateHistory history, restored;
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
  UpdateHistory history;
  CatchUpPlan plan;
  plan.make(history, std::vector<std::int32_t>(5, 0), 0, std::vector<std::int64_t>{1, 4});
  EXPECT_EQ(plan.table().size(), 1u);
  EXPECT_EQ(plan.index()[1], 0u);
  plan.make(history, {}, 0, {});
  EXPECT_TRUE(plan.index().empty());
}

}  // namespace
}  // namespace pfc
