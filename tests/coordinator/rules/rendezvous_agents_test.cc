// Tests what a host provides to a job, and what happens when its agent ends or is replaced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/rules/rendezvous_fixture.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Rendezvous;
using ::testing::SizeIs;

TEST_F(Rendezvous, GivesOneSlotForEachGpuAndOneToAHostWithoutGpus) {
  expect_hosts({{"a", 0}, {"b", 0}, {"c", 2}});
  registers("a", 3);
  registers("b", 0);
  registers("c", 3);
  EXPECT_THAT(slots(), ElementsAre(3, 1, 2));
  EXPECT_THAT(begins(), SizeIs(6));
}

TEST_F(Rendezvous, GivesOneSlotToAHostOfAJobOnCpus) {
  state.job.device = DeviceChoice::kCpu;
  expect_hosts({{"a", 0}});
  registers("a", 8);
  EXPECT_THAT(slots(), ElementsAre(1));
}

TEST_F(Rendezvous, KeepsTheSlotsOfAHostWhoseAgentRegistersAgain) {
  expect_hosts({{"a", 0}});
  registers("a", 2);
  registers("a", 1);
  EXPECT_THAT(slots(), ElementsAre(2));
}

TEST_F(Rendezvous, LimitsAnImpossibleNumberOfGpus) {
  expect_hosts({{"a", 0}, {"b", 0}});
  registers("a", 2'000'000'000);
  registers("b", -1);
  EXPECT_THAT(slots(), ElementsAre(1024, 1));
}

TEST_F(Rendezvous, FailsAJobForGpusBeforeItStartsWhenAHostHasNoGpu) {
  state.job.device = DeviceChoice::kCuda;
  expect_hosts({{"a", 1}, {"b", 1}, {"c", 1}});
  registers("a", 1);
  EXPECT_EQ(tick().reason, "waiting for b, c to register");
  registers("b", 0);
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(does(), "finish");
  EXPECT_TRUE(verdict(state).at_start);
  EXPECT_EQ(verdict(state).message,
            "job failed: host b: device: found \"cuda\", but no CUDA driver: install one");
}

TEST_F(Rendezvous, StartsAJobForAnyDeviceOnAHostWithoutGpu) {
  expect_hosts({{"a", 2}});
  registers("a", 0);
  EXPECT_EQ(does(), "start");
}

TEST_F(Rendezvous, FailsWhenAnAgentBecomesSilent) {
  trains_on_two_hosts();
  passes(30s);
  state.hosts[1].last_heard -= 30s;
  EXPECT_EQ(does(), "blame");
  EXPECT_THAT(verdict(state).message, HasSubstr("host b: its agent has been silent for 30 s"));
}

TEST_F(Rendezvous, RestartsWorkersIfTheirAgentIsReplacedBeforeAllHaveJoined) {
  expect_hosts({{"a", 1}, {"b", 2}});
  registers("a");
  registers("b");
  tick();
  joins(1);
  agent_replaced(state, *find_host(state, "b"), now);
  EXPECT_EQ(state.job.current.workers.at(0).incarnation, 1);
  for (const Rank rank : {1, 2}) {
    EXPECT_EQ(state.job.current.workers.at(rank).incarnation, 2);
    EXPECT_FALSE(state.job.current.workers.at(rank).joined);
  }
  EXPECT_EQ(does(), "wait");
  EXPECT_EQ(find_worker(state, *find_host(state, "b"), 1, 1), nullptr);
  EXPECT_EQ(find_worker(state, *find_host(state, "b"), 1, 2), &state.job.current.workers.at(2));
  EXPECT_EQ(find_worker(state, *find_host(state, "b"), 2, 2), nullptr);
}

TEST_F(Rendezvous, LosesNothingWhenAnAgentIsReplacedBeforeTheStart) {
  expect_hosts({{"a", 1}, {"b", 1}});
  registers("a");
  agent_replaced(state, *find_host(state, "a"), now);
  registers("b");
  EXPECT_EQ(does(), "start");
}

TEST_F(Rendezvous, LosesTheWorkersOfAnAgentThatIsReplacedWhileTheyTrain) {
  trains_on_two_hosts();
  agent_replaced(state, *find_host(state, "b"), now);
  EXPECT_EQ(verdict(state).message,
            "job failed: host b: its pfc-agent was started again, and its workers have ended with "
            "the old one");
  EXPECT_TRUE(state.job.current.workers.at(1).exit);
  EXPECT_FALSE(state.job.current.workers.at(0).exit);
}

}  // namespace
}  // namespace pfc
