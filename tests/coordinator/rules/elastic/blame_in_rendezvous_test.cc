// Tests how decide() handles slots that fail repeatedly, and repeated crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/rules/rendezvous_fixture.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class BlameInRendezvous : public testing::Rendezvous {
 protected:
  BlameInRendezvous() {
    config.max_restarts = 20;
    config.elastic.first_pause = 0ms;
  }

  void trains_on(std::vector<std::pair<std::string, int>> hosts) {
    expect_hosts(hosts);
    for (const auto& [name, slots] : hosts) registers(name);
    ASSERT_EQ(does(), "start");
    all_train();
  }
  void all_train() {
    for (const WorkerState& worker : state.job.current.workers) {
      joins(worker.rank);
      progresses(worker.rank, ++step, "forward");
    }
  }
  /// Kills the worker of this slot and begins the next generation. Returns its members' slots.
  std::vector<std::string> dies(const std::string& host, int slot) {
    for (const WorkerState& worker : state.job.current.workers) {
      if (worker.host == host && worker.slot == slot) exits(worker.rank, {.signal = SIGKILL});
    }
    std::vector<std::string> places;
    for (const Member& member : begins()) {
      places.push_back(member.host + std::to_string(member.slot));
    }
    all_train();
    return places;
  }

  using Places = std::vector<std::string>;
  std::int64_t step = 0;
};

TEST_F(BlameInRendezvous, ASpareTakesThePlaceOfAWorkerThatDied) {
  config.elastic.spares = 1;
  trains_on({{"a", 2}, {"b", 1}});
  EXPECT_EQ(dies("a", 1), (Places{"a0", "b0"}));
  EXPECT_EQ(state.job.current.workers[0].incarnation, 1) << "the survivor stays";
}

TEST_F(BlameInRendezvous, ASlotThatFailsAgainIsExcluded) {
  config.elastic.min_workers = 1;
  trains_on({{"a", 2}, {"b", 1}});
  EXPECT_EQ(dies("a", 1), (Places{"a0", "a1", "b0"}));
  EXPECT_EQ(dies("a", 1), (Places{"a0", "b0"}));
  EXPECT_TRUE(is_left_out(state.job.blame, "a", 1, now));
  EXPECT_EQ(why_smaller(state, config.elastic, now),
            "2 of 3 workers: slot 1 of host a is left out");
  EXPECT_THAT(verdict(state).message,
              HasSubstr("; left out: slot 1 of host a after 2 failures, the last: killed by"));
}

TEST_F(BlameInRendezvous, ANeededSlotIsNotExcluded) {
  trains_on({{"a", 2}});
  dies("a", 1);
  EXPECT_EQ(dies("a", 1), (Places{"a0", "a1"}));
}

TEST_F(BlameInRendezvous, AnExcludedSlotJoinsAgainAtACheckpoint) {
  config.elastic.min_workers = 1;
  trains_on({{"a", 2}});
  dies("a", 1);
  EXPECT_EQ(dies("a", 1), (Places{"a0"}));
  saves(1);
  passes(5min);
  EXPECT_EQ(tick().reason, "training; host a joins at the next checkpoint");
  passes(1s);
  saves(2);
  EXPECT_EQ(regroups().size(), 2U);
}

TEST_F(BlameInRendezvous, AnExcludedSlotIsReadmittedWhenNeeded) {
  config.elastic.min_workers = 2;
  trains_on({{"a", 2}, {"b", 1}});
  dies("a", 1);
  EXPECT_EQ(dies("a", 1), (Places{"a0", "b0"}));
  passes(30s);
  find_host(state, "b")->last_heard -= 30s;
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(does(), "change blame");
  EXPECT_EQ(tick().reason, "waiting a moment for b to come back");
  passes(10s);
  EXPECT_EQ(begins().size(), 2U);
}

TEST_F(BlameInRendezvous, AQuickRestartWaitsForAPause) {
  config.elastic.first_pause = 1'000ms;
  trains_on({{"a", 1}});
  dies("a", 0);
  exits(0, {.signal = SIGKILL});
  EXPECT_EQ(tick().reason,
            "several generations failed soon after their start; pausing before the next");
  passes(1s);
  EXPECT_EQ(does(), "start");
}

TEST_F(BlameInRendezvous, AQuickRestartAfterNewProgressDoesNotWait) {
  config.elastic.first_pause = 1'000ms;
  trains_on({{"a", 1}});
  dies("a", 0);
  saves(1);  // the state to resume from
  passes(15s);
  saves(2);
  exits(0, {.signal = SIGKILL});
  EXPECT_EQ(does(), "start");
}

TEST_F(BlameInRendezvous, TheThirdCrashAtTheSameStepEndsTheJob) {
  trains_on({{"a", 2}});
  for (int time = 1; time <= 3; ++time) {
    progresses(1, 120, "forward");
    exits(1, {.signal = SIGSEGV});
    if (time == 3) break;
    EXPECT_EQ(does(), "start");
    joins(0);
    joins(1);
  }
  EXPECT_EQ(does(), "blame");
  EXPECT_FALSE(may_restart(state, config));
  EXPECT_THAT(verdict(state).message, HasSubstr("this has now happened 3 times at step 120"));
}

// SIGKILL comes from a user, or from the kernel if memory runs out. Several kills can come during
// one step, so they do not show that the step causes them.
TEST_F(BlameInRendezvous, AWorkerKilledAgainAtTheSameStepIsRestarted) {
  trains_on({{"a", 2}});
  for (int time = 1; time <= 4; ++time) {
    progresses(1, 120, "forward");
    exits(1, {.signal = SIGKILL});
    EXPECT_EQ(does(), "start");
    joins(0);
    joins(1);
  }
}

TEST_F(BlameInRendezvous, ACheckpointGivesBackARestart) {
  config.max_restarts = 1;
  trains_on({{"a", 1}});
  dies("a", 0);
  EXPECT_EQ(restarts_left(state, config), 0);
  saves(10);
  passes(10min);
  saves(20);
  EXPECT_EQ(restarts_left(state, config), 1);
  EXPECT_EQ(dies("a", 0), (Places{"a0"}));
}

}  // namespace
}  // namespace pfc
