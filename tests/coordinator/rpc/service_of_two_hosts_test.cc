// Tests the coordinator over real gRPC with two hosts: each agent acts only for its own host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>

#include "tests/coordinator/rpc/voice_of_agent.h"
#include "tests/coordinator/running_coordinator.h"
#include "worker/coordinator_link/coordinator_client.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kJob;
using ::testing::Not;
using testing::RunningCoordinator;
using testing::VoiceOfAgent;

TEST(ServiceOfTwoHosts, PrintsTheOutputOfAWorkerOnlyFromItsOwnHost) {
  RunningCoordinator coordinator({{.name = "a", .slots = 1}, {.name = "b", .slots = 1}});
  VoiceOfAgent a(coordinator.address(), "a", "agent a"), b(coordinator.address(), "b", "agent b");
  a.is_told_workers();
  b.is_told_workers();
  b.tells_output(7, "nobody's");
  b.tells_output(0, "b's own\nforged");
  b.tells_exit(0, SIGKILL);
  a.tells_output(0, "a's own");
  a.tells_exit(0, SIGKILL);
  coordinator.verdict();
  coordinator.shut_down();
  EXPECT_THAT(coordinator.output(),
              AllOf(HasSubstr("[rank 1] b's own forged\n"), HasSubstr("\na's own\n"),
                    Not(HasSubstr("\nforged")), Not(HasSubstr("nobody's"))));
}

TEST(ServiceOfTwoHosts, DoesNotRestartWorkersThatEndedWithTheirAgent) {
  RunningCoordinator coordinator({{.name = "a", .slots = 1}, {.name = "b", .slots = 1}});
  VoiceOfAgent a(coordinator.address(), "a", "agent a"), b(coordinator.address(), "b", "agent b");
  a.is_told_workers();
  b.is_told_workers();
  const auto worker_of = [&](const std::string& agent) {
    return connect_to_coordinator(
        {.address = coordinator.address(), .job_id = kJob, .agent_id = agent, .slot = 0});
  };
  const auto first = worker_of("agent a"), second = worker_of("agent b");
  auto joining = std::async(std::launch::async, [&] { return first->join(20s); });
  second->join(20s);
  joining.get();
  VoiceOfAgent later(coordinator.address(), "a", "agent a2");
  const proto::DesiredSlots wanted = later.is_told_workers();
  ASSERT_EQ(wanted.slots_size(), 1);
  EXPECT_EQ(wanted.slots(0).wish(), proto::DesiredSlots::KILL);
}

TEST(ServiceOfTwoHosts, MatchesHostsIgnoringCaseAndByUniqueShortName) {
  RunningCoordinator coordinator({{.name = "node-a", .slots = 1},
                                  {.name = "w.2.foo.net", .slots = 1},
                                  {.name = "w.3.foo.net", .slots = 1},
                                  {.name = "x", .slots = 1}});
  coordinator.on_loop([](auto&, Coordinator& of) {
    EXPECT_EQ(of.agents().listed_host("NODE-A", ""), "node-a");
    EXPECT_EQ(of.agents().listed_host("Node-A.foo.net", ""), "node-a");
    EXPECT_EQ(of.agents().listed_host("w.3.FOO.net", ""), "w.3.foo.net");
    EXPECT_EQ(of.agents().listed_host("w", ""), std::nullopt) << "two hosts have this short name";
    EXPECT_EQ(of.agents().listed_host("w.4.foo.net", ""), std::nullopt);
    EXPECT_EQ(of.agents().listed_host("x.foo.net", ""), "x");
  });
}

TEST(ServiceOfTwoHosts, ReportsARefusedAgentOnce) {
  RunningCoordinator coordinator({{.name = "w", .slots = 1}, {.name = "b", .slots = 1}});
  for (int i = 0; i < 2; ++i) {
    VoiceOfAgent stranger(coordinator.address(), "elsewhere", "a stranger");
    EXPECT_THAT(stranger.is_refused().error_message(), HasSubstr("host elsewhere (127.0.0.1)"));
  }
  VoiceOfAgent first(coordinator.address(), "w.2.foo.net", "agent of w.2");
  EXPECT_TRUE(first.hears().has_registered());
  VoiceOfAgent second(coordinator.address(), "w.3.foo.net", "agent of w.3");
  EXPECT_THAT(
      second.is_refused().error_message(),
      HasSubstr("host w.3.foo.net (127.0.0.1) matches w in the coordinator's --hosts, but so "
                "does w.2.foo.net"));
  coordinator.shut_down();
  const std::string told = coordinator.output();
  const std::string line = "an agent was refused: host elsewhere (127.0.0.1) is not in the";
  const std::size_t at = told.find(line);
  EXPECT_NE(at, told.npos) << told;
  EXPECT_EQ(told.find(line, at + 1), told.npos) << "printed twice";
  EXPECT_THAT(told, HasSubstr("an agent was refused: host w.3.foo.net (127.0.0.1) matches w"));
}

TEST(ServiceOfTwoHosts, KnowsThisMachinesAddressWithoutResolvingAName) {
  RunningCoordinator coordinator(
      {{.name = "a", .slots = 1, .local = true}, {.name = "b.invalid", .slots = 1}});
  VoiceOfAgent a(coordinator.address(), "a", "agent a");
  VoiceOfAgent b(coordinator.address(), "b.invalid", "agent b");
  a.is_told_workers();
  EXPECT_EQ(coordinator.status().hosts(0).address(), "127.0.0.1");
}

}  // namespace
}  // namespace pfc
