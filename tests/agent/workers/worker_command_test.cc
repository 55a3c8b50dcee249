#include "agent/workers/worker_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(WorkerCommand, ContainsTheWorkersSlotAndTimeouts) {
  const WorkerCommand command(
      {.program = "/bin/pfc-worker", .coordinator = "host:7450", .agent_id = "me"});
  proto::DesiredSlots desired;
  desired.set_join_timeout_ms(70'000);
  desired.set_collective_timeout_ms(2'500);
  proto::DesiredSlots::Slot& wanted = *desired.add_slots();
  wanted.set_slot(3);
  wanted.set_incarnation(2);
  const SpawnOptions options = command.of("job", desired, wanted, 10min);
  EXPECT_EQ(options.program, "/bin/pfc-worker");
  EXPECT_THAT(options.arguments,
              ElementsAre("--coordinator", "host:7450", "--job", "job", "--agent", "me", "--slot",
                          "3", "--incarnation", "2", "--join-timeout", "70", "--collective-timeout",
                          "2.5", "--coordinator-grace", "600"));
}

TEST(WorkerCommand, PassesNoCredentialInPlaintextAndBindsNoWorkerByDefault) {
  const WorkerCommand command({.program = "pfc-worker", .coordinator = "", .agent_id = ""});
  proto::DesiredSlots desired;
  const SpawnOptions options = command.of("job", desired, *desired.add_slots(), 0s);
  EXPECT_EQ(command.certificate_request(), "");
  EXPECT_EQ(options.input, "");
  EXPECT_THAT(options.cpus, IsEmpty());
}

}  // namespace
}  // namespace pfc
