// Tests what a cluster keeps from one job to the next.
#include <gmock/gmock.h>

#include "tests/coordinator/rules/rendezvous_fixture.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::Rendezvous;

TEST_F(Rendezvous, TheNextJobKeepsOnlyTheHostsOfThePreviousJob) {
  trains_on_two_hosts();
  exits(0, {.signal = 9});
  end_job(state, now);
  begin_job(state, "next", DeviceChoice::kAuto, now);
  EXPECT_EQ(state.job.id, "next");
  EXPECT_EQ(state.job.current.number, 0);
  EXPECT_TRUE(state.job.current.incidents.empty());
  EXPECT_EQ(does(), "start");
  const WorkerState& worker = state.job.current.workers.at(0);
  EXPECT_FALSE(worker.exit);
  EXPECT_EQ(worker.incarnation, 2) << "expected a new process for the next job";
}

TEST_F(Rendezvous, AHostWithoutASlotCountAdaptsToEachJobsDevice) {
  expect_hosts({{"a", 0}, {"b", 3}});
  registers("a", 4);
  registers("b", 4);
  EXPECT_THAT(slots(), ElementsAre(4, 3));
  begin_job(state, "next", DeviceChoice::kCpu, now);
  EXPECT_THAT(slots(), ElementsAre(1, 3));
  begin_job(state, "last", DeviceChoice::kCuda, now);
  EXPECT_THAT(slots(), ElementsAre(4, 3));
}

TEST_F(Rendezvous, AHostThatIsSilentBetweenJobsMustRegisterAgain) {
  expect_hosts({{"a", 1}, {"b", 1}});
  registers("a");
  registers("b");
  now += 29s;
  find_host(state, "b")->last_heard = now;
  EXPECT_THAT(release_silent_hosts(state, 30s, now), ElementsAre());
  now += 1s;
  EXPECT_THAT(release_silent_hosts(state, 30s, now), ElementsAre("a"));
  EXPECT_EQ(missing_hosts(state), "a");
}

TEST_F(Rendezvous, RemembersOnlyAFewReplacedAgents) {
  expect_hosts({{"a", 1}});
  HostState& host = state.hosts.front();
  for (int i = 0; i < 1'000; ++i) agent_left_behind(host, std::to_string(i));
  EXPECT_LE(host.former_agents.size(), 64U);
  EXPECT_EQ(host.former_agents.back(), "999");
}

}  // namespace
}  // namespace pfc
