// The coordinator over real gRPC with two hosts: each agent speaks for its own host alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>

#include "tests/coordinator/rpc/voice_of_agent.h"
#include "tests/coordinator/running_coordinator.h"
#include "worker/report/coordinator_client.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kJob;
using ::testing::Not;
using testing::RunningCoordinator;
using testing::VoiceOfAgent;

TEST(ServiceOfTwoHosts, PrintsTheOutputOfAWorkerFromItsOwnHostAlone) {
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

TEST(ServiceOfTwoHosts, DoesNotStartAgainWhatHasEndedWithAnAgentThatTrained) {
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

TEST(ServiceOfTwoHosts, TellsTheAddressOfThisMachineWithoutLookingANameUp) {
  RunningCoordinator coordinator(
      {{.name = "a", .slots = 1, .local = true}, {.name = "b.invalid", .slots = 1}});
  VoiceOfAgent a(coordinator.address(), "a", "agent a");
  VoiceOfAgent b(coordinator.address(), "b.invalid", "agent b");
  a.is_told_workers();
  EXPECT_EQ(coordinator.status().hosts(0).address(), "127.0.0.1");
}

}  // namespace
}  // namespace pfc
