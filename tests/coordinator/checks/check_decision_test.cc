#include "coordinator/checks/check_decision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "coordinator/rules/rendezvous.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Hosts a, b and c with two slots each. They report no addresses, so no network is measured.
class CheckDecision : public ::testing::Test {
 protected:
  CheckDecision() {
    for (const char* name : {"a", "b", "c"}) state.hosts.push_back({.name = name, .slots = 2});
    begin_job(state, "0123", DeviceChoice::kCuda, now);
  }

  void registers(const std::string& name) {
    proto::AgentRegistration registration;
    registration.set_agent_id(name);
    host_registered(*find_host(state, name), registration, DeviceChoice::kCuda, now);
  }

  void passes(std::chrono::milliseconds time) {
    now += time;
    for (HostState& host : state.hosts) host.last_heard = now;
  }

  Decision tick() {
    Decision decision = decide_check(state, config, limits, now);
    for (const Action& action : decision.actions) apply(state, action, now);
    return decision;
  }

  template <typename Wanted>
  bool does() {
    const Decision decision = tick();
    return decision.actions.size() == 1 && std::holds_alternative<Wanted>(decision.actions.front());
  }

  void look_at_all_hosts() {
    for (const char* name : {"a", "b", "c"}) registers(name);
    ASSERT_TRUE(does<action::StartGeneration>());
  }

  WorkerState& worker(Rank rank) { return state.job.current.workers.at(rank); }

  std::vector<std::string> hosts_of_workers() {
    std::vector<std::string> hosts;
    for (const WorkerState& each : state.job.current.workers) hosts.push_back(each.host);
    return hosts;
  }

  TimePoint now{1000s};
  ClusterState state;
  RendezvousConfig config;
  CheckLimits limits;
};

TEST_F(CheckDecision, WaitsForHostsAndThenContinuesWithoutThem) {
  registers("a");
  registers("c");
  EXPECT_EQ(tick().reason, "waiting for b to register");
  passes(20s);
  ASSERT_TRUE(does<action::StartGeneration>());
  EXPECT_THAT(hosts_of_workers(), ElementsAre("a", "a", "c", "c"));
}

TEST_F(CheckDecision, EndsIfNoHostHasRegistered) {
  passes(20s);
  EXPECT_TRUE(does<action::Finish>());
}

TEST_F(CheckDecision, TestsHostsWithoutTheRequiredGpus) {
  look_at_all_hosts();
  EXPECT_THAT(hosts_of_workers(), ElementsAre("a", "a", "b", "b", "c", "c"));
}

TEST_F(CheckDecision, ConnectsTheWorkersThatHaveTestedTheirHosts) {
  look_at_all_hosts();
  for (const Rank rank : {0, 1, 2, 4, 5}) worker_paused(worker(rank));
  EXPECT_EQ(tick().reason, "waiting for the tests of b");
  worker_exited(state, worker(3), ProcessExit{.code = 2}, {"open files: found a limit"}, now);
  ASSERT_TRUE(does<action::StartGeneration>());
  EXPECT_EQ(state.job.current.number, 2);
  EXPECT_THAT(hosts_of_workers(), ElementsAre("a", "a", "b", "c", "c"));
  EXPECT_TRUE(worker(2).stayed);
}

TEST_F(CheckDecision, DoesNotWaitForEverForAWorkerThatHangs) {
  look_at_all_hosts();
  for (const Rank rank : {0, 1, 2, 3, 4}) worker_paused(worker(rank));
  proto::Progress progress;
  progress.set_starting(true);
  progress.set_phase("opening /data");
  worker_progressed(worker(5), progress, now);
  EXPECT_EQ(tick().reason, "waiting for the tests of c (opening /data)");
  passes(60s);
  ASSERT_TRUE(does<action::StartGeneration>());
  EXPECT_EQ(state.job.current.workers.size(), 5U);
}

TEST_F(CheckDecision, DoesNotWaitForAHostWhoseAgentIsGone) {
  look_at_all_hosts();
  for (const Rank rank : {0, 1, 2, 3}) worker_paused(worker(rank));
  const TimePoint heard = now;
  passes(config.limits.silence);
  find_host(state, "c")->last_heard = heard;
  EXPECT_TRUE(does<action::StartGeneration>());
}

TEST_F(CheckDecision, ExcludesHostsThatOthersCannotReach) {
  look_at_all_hosts();
  state.network.failed = true;
  state.network.apart = {"b"};
  for (Rank rank = 0; rank < 6; ++rank) worker_paused(worker(rank));
  ASSERT_TRUE(does<action::StartGeneration>());
  EXPECT_THAT(hosts_of_workers(), ElementsAre("a", "a", "c", "c"));
}

TEST_F(CheckDecision, EndsWhenAllWorkersHaveEnded) {
  look_at_all_hosts();
  for (Rank rank = 0; rank < 6; ++rank) worker_paused(worker(rank));
  ASSERT_TRUE(does<action::StartGeneration>());
  EXPECT_EQ(tick().reason, "timing collectives");
  for (WorkerState& each : state.job.current.workers) each.exit = ProcessExit{.code = 0};
  EXPECT_TRUE(does<action::Finish>());
}

TEST_F(CheckDecision, KillsWorkersThatDoNotEnd) {
  look_at_all_hosts();
  for (Rank rank = 0; rank < 6; ++rank) worker_paused(worker(rank));
  ASSERT_TRUE(does<action::StartGeneration>());
  passes(60s);
  EXPECT_TRUE(does<action::Terminate>());
  passes(config.terminate);
  EXPECT_TRUE(does<action::Kill>());
  passes(config.kill);
  EXPECT_TRUE(does<action::Finish>());
}

TEST_F(CheckDecision, EndsIfStoppedWhileWaitingForHosts) {
  state.job.stop = StopRequest{.reason = "SIGINT", .at = now};
  EXPECT_TRUE(does<action::Finish>());
}

}  // namespace
}  // namespace pfc
