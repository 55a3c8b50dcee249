#include "pfcctl/chaos/schedule.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace pfc {
namespace {

using namespace std::chrono_literals;

ChaosPlan kills_and_stops(std::uint64_t seed) {
  return {.wishes = {{.kind = proto::FAULT_KILL_WORKER, .every = 30s},
                     {.kind = proto::FAULT_STOP_WORKER, .every = 60s, .lasts = 20s}},
          .duration = 10min,
          .seed = seed};
}

std::vector<std::chrono::milliseconds> times_of(const std::vector<PlannedFault>& faults,
                                                proto::FaultKind kind) {
  std::vector<std::chrono::milliseconds> times;
  for (const PlannedFault& each : faults) {
    if (each.kind == kind) times.push_back(each.at);
  }
  return times;
}

TEST(PlanOfFaults, IsSortedAndStaysWithinTheDuration) {
  const auto faults = plan_faults(kills_and_stops(1));
  EXPECT_TRUE(std::ranges::is_sorted(faults, {}, &PlannedFault::at));
  EXPECT_LT(faults.back().at, 10min);
}

TEST(PlanOfFaults, HasAboutTheRequestedNumberOfFaults) {
  const auto faults = plan_faults(kills_and_stops(1));
  EXPECT_NEAR(times_of(faults, proto::FAULT_KILL_WORKER).size(), 20, 5);
  EXPECT_NEAR(times_of(faults, proto::FAULT_STOP_WORKER).size(), 10, 4);
}

TEST(PlanOfFaults, IntervalsAreHalfToOneAndAHalfTimesTheMean) {
  std::chrono::milliseconds last{0};
  for (const auto at : times_of(plan_faults(kills_and_stops(7)), proto::FAULT_KILL_WORKER)) {
    EXPECT_GE(at - last, 14'999ms);
    EXPECT_LE(at - last, 45'001ms);
    last = at;
  }
}

TEST(PlanOfFaults, IsEqualForEqualSeedsAndDiffersForOthers) {
  const auto first = plan_faults(kills_and_stops(1)), same = plan_faults(kills_and_stops(1));
  ASSERT_EQ(first.size(), same.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].at, same[i].at);
    EXPECT_EQ(first[i].pick, same[i].pick);
  }
  EXPECT_NE(first.front().at, plan_faults(kills_and_stops(2)).front().at);
}

TEST(PlanOfFaults, TimesOfOneKindDoNotDependOnOtherKinds) {
  ChaosPlan alone = kills_and_stops(1);
  alone.wishes.pop_back();
  EXPECT_EQ(times_of(plan_faults(alone), proto::FAULT_KILL_WORKER),
            times_of(plan_faults(kills_and_stops(1)), proto::FAULT_KILL_WORKER));
}

TEST(PlanOfFaults, IsEmptyByDefault) { EXPECT_TRUE(plan_faults({.duration = 10min}).empty()); }

/// Ranks 0 and 1 on host a, 2 on host b; host c has not registered.
proto::StatusReply status_of_job() {
  proto::StatusReply status;
  for (const std::string name : {"a", "b", "c"}) {
    status.add_hosts()->set_name(name);
    status.mutable_hosts()->rbegin()->set_registered(name != "c");
  }
  for (int rank = 0; rank < 3; ++rank) {
    proto::WorkerStatus* worker = status.add_workers();
    worker->set_rank(rank);
    worker->set_host(rank < 2 ? "a" : "b");
    worker->set_pid(100 + rank);
    worker->set_state("training");
  }
  return status;
}

constexpr PlannedFault kill(double pick) {
  return {.kind = proto::FAULT_KILL_WORKER, .pick = pick};
}
constexpr PlannedFault cut(double pick) { return {.kind = proto::FAULT_PARTITION, .pick = pick}; }

TEST(VictimOfAFault, CanBeAnyRunningWorker) {
  EXPECT_EQ(pick_victim(kill(0), {}, status_of_job())->rank, 0);
  EXPECT_EQ(pick_victim(kill(0.5), {}, status_of_job())->rank, 1);
  EXPECT_EQ(pick_victim(kill(0.999), {}, status_of_job())->rank, 2);
  proto::StatusReply status = status_of_job();
  status.mutable_workers(0)->set_state("exited");
  EXPECT_EQ(pick_victim(kill(0), {}, status)->rank, 1);
  status.mutable_workers(1)->set_pid(0);  // not started yet
  EXPECT_EQ(pick_victim(kill(0), {}, status)->rank, 2);
}

TEST(VictimOfAFault, IsARegisteredHost) {
  EXPECT_EQ(pick_victim(cut(0), {}, status_of_job())->host, "a");
  EXPECT_EQ(pick_victim(cut(0.999), {}, status_of_job())->host, "b");
}

TEST(VictimOfAFault, IsWithinTheRequestedScope) {
  EXPECT_EQ(pick_victim(kill(0), {.rank = 1, .host = ""}, status_of_job())->rank, 1);
  EXPECT_EQ(pick_victim(kill(0), {.rank = {}, .host = "b"}, status_of_job())->rank, 2);
  EXPECT_FALSE(pick_victim(cut(0), {.rank = {}, .host = "c"}, status_of_job()));
}

TEST(VictimOfAFault, IsNotOnAHostThatRefusesThisKind) {
  const FaultScope scope{.rank = {}, .host = "", .refused = {{proto::FAULT_PARTITION, {"a"}}}};
  EXPECT_EQ(pick_victim(cut(0), scope, status_of_job())->host, "b");
  EXPECT_EQ(pick_victim(kill(0), scope, status_of_job())->host, "a");
}

}  // namespace
}  // namespace pfc
