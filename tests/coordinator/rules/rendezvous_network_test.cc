// Tests that the network between the hosts is measured before a generation begins.
#include "tests/coordinator/rules/rendezvous_fixture.h"
#include "tests/coordinator/taken_over.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

class RendezvousOverNetworks : public testing::Rendezvous {
 protected:
  void registers_with_address(const std::string& name, const std::string& agent) {
    proto::AgentRegistration registration;
    registration.set_agent_id(agent);
    proto::NetworkAddress* const address = registration.add_addresses();
    address->set_interface("eth0");
    address->set_address("10.0.0." + std::to_string(name.front() - 'a' + 1));
    address->set_prefix(24);
    host_registered(*find_host(state, name), registration, state.job.device, now);
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

  /// Host b is lost during training, and comes back.
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

TEST_F(RendezvousOverNetworks, MeasuresTheNetworkWhenAllHostsHaveRegistered) {
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

TEST_F(RendezvousOverNetworks, DoesNotMeasureTheNetworkOfASingleHost) {
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

TEST_F(RendezvousOverNetworks, MeasuresAgainWhenAnAgentIsReplacedDuringAMeasurement) {
  registers_two_hosts();
  tick();
  registers_with_address("b", "agent b2");
  EXPECT_EQ(does(), "measure");
  EXPECT_EQ(does(), "wait");
}

TEST_F(RendezvousOverNetworks, MeasuresAgainBeforeTheNextGenerationOfAReplacedHost) {
  comes_back();
  EXPECT_EQ(does(), "measure");
  EXPECT_EQ(does(), "wait");
  measured();
  const std::vector<Member> members = begins();
  ASSERT_EQ(members.size(), 2U);
  EXPECT_EQ(members[0].survivor, 1) << "the network is the same, so the other worker stays";
}

TEST_F(RendezvousOverNetworks, DoesNotMeasureAgainWhenOnlyAWorkerIsReplaced) {
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

TEST_F(RendezvousOverNetworks, ReplacesAllWorkersWhenTheNetworkChanges) {
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

/// Three hosts with one worker each, of which two are enough.
class RendezvousOverBrokenNetworks : public RendezvousOverNetworks {
 protected:
  void trains_on_three_hosts() {
    config.max_restarts = 3;
    config.elastic.min_workers = 2;
    expect_hosts({{"a", 1}, {"b", 1}, {"c", 1}});
    for (const char* host : {"a", "b", "c"})
      registers_with_address(host, std::string("agent ") + host);
    ASSERT_EQ(does(), "measure");
    measured();
    ASSERT_EQ(does(), "start");
    all_train();
  }
  void all_train() {
    for (const WorkerState& worker : state.job.current.workers) {
      joins(worker.rank);
      progresses(worker.rank, 1, "forward");
    }
  }
  void all_lose_each_other() {
    passes(1s);
    for (const WorkerState& worker : state.job.current.workers) {
      worker_left(state, state.job.current.workers.at(worker.rank), "all_reduce: timed out", now);
    }
    passes(config.grace);
  }
  void c_is_apart() {
    not_measured("host a cannot reach host c: timed out");
    state.network.apart = {"c"};
  }
  /// The job continues with the workers of a and b.
  void goes_on_without_c() {
    all_lose_each_other();
    ASSERT_EQ(does(), "measure");
    c_is_apart();
    passes(config.elastic.host_patience);
    ASSERT_EQ(does(), "change blame");
    ASSERT_EQ(does(), "measure");
    measured();
    state.network.failed = false;
    ASSERT_EQ(begins().size(), 2U);
  }
};

TEST_F(RendezvousOverBrokenNetworks, MeasuresAgainWhenWorkersHaveLostEachOther) {
  trains_on_three_hosts();
  all_lose_each_other();
  EXPECT_EQ(does(), "measure");
  EXPECT_EQ(does(), "wait");
  measured();
  EXPECT_EQ(begins().size(), 3U) << "all hosts reach each other";
}

TEST_F(RendezvousOverBrokenNetworks, WaitsBrieflyForALinkToComeBack) {
  trains_on_three_hosts();
  all_lose_each_other();
  tick();
  c_is_apart();
  EXPECT_EQ(does(), "wait");
  passes(1s);
  EXPECT_EQ(does(), "measure");
  measured();
  state.network.failed = false;
  EXPECT_EQ(begins().size(), 3U);
}

TEST_F(RendezvousOverBrokenNetworks, ExcludesAnUnreachableHost) {
  trains_on_three_hosts();
  goes_on_without_c();
  EXPECT_EQ(why_smaller(state, config.elastic, now), "2 of 3 workers: host c is left out");
}

TEST_F(RendezvousOverBrokenNetworks, ReadmitsAHostThatIsReachableAgain) {
  trains_on_three_hosts();
  goes_on_without_c();
  all_train();
  passes(kFirstLeftOut);
  saves(1);
  passes(1s);
  saves(2);
  EXPECT_EQ(does(), "measure");
  measured();
  EXPECT_EQ(regroups().size(), 3U);
}

TEST_F(RendezvousOverBrokenNetworks, DoesNotNeedANetworkForASingleHost) {
  config.max_restarts = 3;
  config.elastic.min_workers = 1;
  registers_two_hosts();
  tick();
  measured();
  ASSERT_EQ(does(), "start");
  all_train();
  all_lose_each_other();
  ASSERT_EQ(does(), "measure");
  not_measured("host a cannot reach host b: timed out");
  state.network.apart = {"b"};
  passes(config.elastic.host_patience);
  EXPECT_EQ(does(), "change blame");
  EXPECT_EQ(begins().size(), 1U);
}

TEST_F(RendezvousOverBrokenNetworks, DoesNotExcludeANeededHost) {
  trains_on_three_hosts();
  config.elastic.min_workers = 3;
  all_lose_each_other();
  tick();
  c_is_apart();
  passes(config.elastic.host_patience);
  EXPECT_EQ(does(), "measure");
}

TEST_F(RendezvousOverNetworks, MeasuresAgainIfATakeoverFindsALinkDown) {
  registers_two_hosts();
  ASSERT_EQ(does(), "measure");
  measured();
  ASSERT_EQ(does(), "start");
  state = testing::taken_over(state, now, std::chrono::system_clock::now());
  state.network = {};
  ASSERT_EQ(does(), "measure");
  not_measured("no answer from the agent of b within 10 s");
  EXPECT_EQ(tick().reason, "no answer from the agent of b within 10 s");
  passes(1s);
  EXPECT_EQ(tick().reason, "measuring the network again");
  passes(config.limits.start);
  not_measured("no answer from the agent of b within 10 s");
  EXPECT_EQ(does(), "blame");
}

}  // namespace
}  // namespace pfc
