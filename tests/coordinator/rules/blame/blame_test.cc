// Tests how failures of slots and hosts are counted and forgiven and cause exclusions, and how
// restarts are used and given back.
#include "coordinator/rules/blame/blame.h"

#include <gtest/gtest.h>

#include "coordinator/rules/blame/restart_budget.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

class FailuresOfASlot : public ::testing::Test {
 protected:
  void fails() { add_failure(blame, "a", 1, 1, "killed", now); }
  FailureRecord& record() { return blame.records.front(); }

  TimePoint now{1'000'000s};
  FailureHistory blame;
};

TEST_F(FailuresOfASlot, AreCountedBySlot) {
  fails();
  add_failure(blame, "a", 0, 1, "killed", now);
  fails();
  EXPECT_EQ(failures_of(blame, "a", 1, now), 2);
  EXPECT_EQ(failures_of(blame, "a", 0, now), 1);
  EXPECT_EQ(failures_of(blame, "b", 1, now), 0);
}

TEST_F(FailuresOfASlot, AreForgivenOnePerHalfHour) {
  fails();
  fails();
  EXPECT_EQ(failures_of(blame, "a", 1, now + 29min), 2);
  EXPECT_EQ(failures_of(blame, "a", 1, now + 30min), 1);
  EXPECT_EQ(failures_of(blame, "a", 1, now + 60min), 0);
}

TEST_F(FailuresOfASlot, AreRemovedWhenAllAreForgiven) {
  fails();
  now += 31min;
  add_failure(blame, "b", 0, 1, "killed", now);
  ASSERT_EQ(blame.records.size(), 1U);
  EXPECT_EQ(record().host, "b");
}

TEST_F(FailuresOfASlot, ExcludeTheSlotForAGrowingTime) {
  fails();
  EXPECT_FALSE(is_at_limit(record(), now));
  fails();
  ASSERT_TRUE(is_at_limit(record(), now));
  leave_out(record(), now);
  EXPECT_TRUE(is_left_out(blame, "a", 1, now + 299s));
  EXPECT_FALSE(is_left_out(blame, "a", 0, now));
  now += 5min;
  EXPECT_FALSE(is_left_out(blame, "a", 1, now));
  EXPECT_EQ(admitted_at(blame, "a", 1), now);
  fails();
  EXPECT_TRUE(is_at_limit(record(), now)) << "one failure is enough after an exclusion";
  leave_out(record(), now);
  EXPECT_TRUE(is_left_out(blame, "a", 1, now + 9min));
  EXPECT_FALSE(is_left_out(blame, "a", 1, now + 10min));
}

TEST_F(FailuresOfASlot, NeverExcludeTheSlotForMoreThanTwoHours) {
  fails();
  for (int i = 0; i < 40; ++i) leave_out(record(), now);
  EXPECT_EQ(*record().until, now + 2h);
}

TEST_F(FailuresOfASlot, ExcludeAllSlotsIfTheWholeHostFails) {
  add_failure(blame, "a", kWholeHost, kHostLimit, "silent", now);
  ASSERT_TRUE(is_at_limit(record(), now));
  leave_out(record(), now);
  EXPECT_TRUE(is_left_out(blame, "a", 7, now));
  EXPECT_EQ(name_of(record()), "host a");
}

class RestartsOfAJob : public ::testing::Test {
 protected:
  /// Restarts after a generation of this duration.
  void restarts(Clock::duration lasted) {
    now += lasted;
    spend_restart(budget, 1'000ms, now - lasted, now);
  }

  TimePoint now{1'000'000s};
  RestartBudget budget;
};

TEST_F(RestartsOfAJob, PauseForAGrowingTimeIfGenerationsAreShort) {
  restarts(10s);
  EXPECT_EQ(budget.not_before, now);
  restarts(10s);
  EXPECT_EQ(budget.not_before, now + 1s);
  restarts(10s);
  EXPECT_EQ(budget.not_before, now + 2s);
  for (int i = 0; i < 50; ++i) restarts(10s);
  EXPECT_EQ(budget.not_before, now + 60s);
  restarts(60s);
  EXPECT_EQ(budget.not_before, now) << "a generation of 60 s is not a quick restart";
}

TEST_F(RestartsOfAJob, AreGivenBackOnePerTenMinutes) {
  restarts(10s);
  restarts(10s);
  now += 599s;
  refill(budget, now);
  EXPECT_EQ(budget.spent, 2);
  now += 1s;
  refill(budget, now);
  EXPECT_EQ(budget.spent, 1);
  refill(budget, now);
  EXPECT_EQ(budget.spent, 1) << "one restart is given back in ten minutes";
}

TEST_F(RestartsOfAJob, CountSuccessiveCrashesAtTheSameStep) {
  const CrashSite site{.rank = 1, .workers = 4, .step = 7};
  EXPECT_EQ(count_crash(budget, site), 1);
  EXPECT_EQ(count_crash(budget, site), 2);
  EXPECT_EQ(count_crash(budget, {.rank = 1, .workers = 4, .step = 8}), 1);
  EXPECT_EQ(count_crash(budget, site), 1);
}

}  // namespace
}  // namespace pfc
