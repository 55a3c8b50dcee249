// The network between the hosts is measured before a generation begins.
#include "tests/coordinator/rendezvous_fixture.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

class RendezvousOverNetworks : public testing::Rendezvous {
 protected:
  void registers_with_address(const std::string& name, const std::string& agent) {
    proto::AgentRegistration registration;
    registration.set_gpus(1);
    registration.set_agent_id(agent);
    proto::NetworkAddress* const address = registration.add_addresses();
    address->set_interface("eth0");
    address->set_address(name == "a" ? "10.0.0.1" : "10.0.0.2");
    address->set_prefix(24);
    host_registered(*find_host(state, name), registration, config.device, now);
  }

  void registers_two_hosts() {
    expect_hosts({{"a", 1}, {"b", 1}});
    registers_with_address("a", "agent a");
    registers_with_address("b", "agent b");
  }

  void measured() { state.network.ended_at = now; }
  void not_measured(const std::string& why) {
    measured();
    state.network.failed = true;
    state.network.text = why;
  }

  /// Host b is lost in a job that trains, and comes back.
  void comes_back() {
    config.max_restarts = 3;
    registers_two_hosts();
    tick();
    measured();
    ASSERT_EQ(does(), "start");
    joins(0);
    joins(1);
    state.network.text = "network 10.0.0.0/24";
    agent_replaced(state, *find_host(state, "b"), now);
    registers_with_address("b", "agent b2");
  }
};

TEST_F(RendezvousOverNetworks, IsMeasuredWhenAllHostsAreHere) {
  expect_hosts({{"a", 1}, {"b", 1}});
  registers_with_address("a", "agent a");
  EXPECT_EQ(tick().reason, "waiting for b to register");
  registers_with_address("b", "agent b");
  EXPECT_EQ(does(), "measure");
  EXPECT_EQ(tick().reason, "measuring the network between 2 hosts");
  EXPECT_EQ(does(), "wait");
  measured();
  EXPECT_EQ(does(), "start");
}

TEST_F(RendezvousOverNetworks, IsNotMeasuredForOneHost) {
  expect_hosts({{"a", 2}});
  registers_with_address("a", "agent a");
  EXPECT_EQ(does(), "start");
}

TEST_F(RendezvousOverNetworks, EndsTheJobWhenNoNetworkReachesAll) {
  registers_two_hosts();
  tick();
  not_measured("host a cannot reach host b: refused");
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(does(), "finish");
  EXPECT_EQ(verdict(state).message, "job failed: network: host a cannot reach host b: refused");
  EXPECT_TRUE(verdict(state).at_start);
}

TEST_F(RendezvousOverNetworks, IsMeasuredAgainWhenAnAgentIsReplacedMeanwhile) {
  registers_two_hosts();
  tick();
  registers_with_address("b", "agent b2");
  EXPECT_EQ(does(), "measure");
  EXPECT_EQ(does(), "wait");
}

TEST_F(RendezvousOverNetworks, IsMeasuredAgainBeforeTheNextGenerationOfAReplacedHost) {
  comes_back();
  EXPECT_EQ(does(), "measure");
  EXPECT_EQ(does(), "wait");
  measured();
  const std::vector<Member> members = begins();
  ASSERT_EQ(members.size(), 2U);
  EXPECT_EQ(members[0].survivor, 1) << "the network is the same, so the other worker stays";
}

TEST_F(RendezvousOverNetworks, IsNotMeasuredAgainWhenOnlyAWorkerIsReplaced) {
  config.max_restarts = 1;
  registers_two_hosts();
  tick();
  measured();
  ASSERT_EQ(does(), "start");
  joins(0);
  joins(1);
  exits(1, {.signal = SIGKILL});
  EXPECT_EQ(does(), "start");
}

TEST_F(RendezvousOverNetworks, KeepsNoWorkerWhenTheNetworkIsAnotherOne) {
  comes_back();
  tick();
  measured();
  state.network.changed = true;
  for (const Member& member : begins()) EXPECT_EQ(member.survivor, 0);
  EXPECT_FALSE(state.network.changed);
}

TEST_F(RendezvousOverNetworks, WaitsInARestartForALinkThatComesBack) {
  comes_back();
  tick();
  not_measured("host a cannot reach host b: refused");
  EXPECT_EQ(does(), "wait");
  passes(1s);
  EXPECT_EQ(does(), "measure");
  not_measured("host a cannot reach host b: refused");
  passes(config.limits.start);
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(incident_lines(state.job.current).back(),
            "network: host a cannot reach host b: refused");
  EXPECT_EQ(does(), "terminate");
}

}  // namespace
}  // namespace pfc
