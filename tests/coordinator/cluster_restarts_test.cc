// Tests which jobs of the real programs continue after a failure, and which do not.
#include <gmock/gmock.h>

#include <csignal>

#include "common/coordinator_file.h"
#include "proto/channel.h"
#include "proto/coordinator.grpc.pb.h"
#include "security/credential.h"
#include "tests/coordinator/cluster_fixture.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using testing::Cluster;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(Cluster, ContinuesAfterAKilledWorkerIfRestartsAreLeft) {
  const Ran ran = runs("killed_once:1", {"--max-restarts", "1"});
  EXPECT_EQ(ran.exit, ProcessExit{}) << ran.err;
  EXPECT_EQ(ran.last_line(), "pfc-coordinator: job completed");
  EXPECT_THAT(ran.err, ContainsRegex("warning: rank 1 .host localhost, slot 1, pid [0-9]+.: killed "
                                     "by signal 9"));
  EXPECT_THAT(
      ran.err,
      HasSubstr(
          "generation 2: starting 1 worker, and 1 worker stays; restart 1, restarts left: 0 of 1"));
  EXPECT_THAT(processes_left(), IsEmpty());
}

TEST_F(Cluster, FailsWithTheLastCauseWhenAllRestartsAreSpent) {
  const Ran ran = runs("killed:1", {"--max-restarts", "2"});
  EXPECT_EQ(ran.exit.code, 1);
  EXPECT_THAT(ran.last_line(), AllOf(HasSubstr("rank 1"), HasSubstr("(after 2 restarts)")));
  EXPECT_THAT(processes_left(), IsEmpty());
}

TEST_F(Cluster, RefusesASecondAgentOnItsOwnHostAndContinues) {
  const auto coordinator = starts("until_stop");
  wait_for_output("world size 2");
  const std::string address = find_coordinator(folder / "state", "").address;
  const auto stub = proto::CoordinatorService::NewStub(
      make_channel(address, read_credential(folder / "state" / "security" / "admin.pem")));
  grpc::ClientContext context;
  proto::CreateTokenReply token;
  ASSERT_TRUE(stub->CreateToken(&context, proto::CreateTokenRequest(), &token).ok());
  ChildProcess second({.program = programs + "/pfc-agent",
                       .arguments = {"--join", token.text(), "--host", "localhost", "--state-dir",
                                     (folder / "second").string()},
                       .environment = {{"PFC_TEST_MARK", mark()}}});
  std::optional<ProcessExit> exit;
  while (!(exit = second.poll())) std::this_thread::sleep_for(std::chrono::milliseconds{5});
  EXPECT_EQ(exit->code, 2);
  coordinator->send(SIGTERM);
  const Ran ran = ends(*coordinator);
  EXPECT_EQ(ran.exit.code, 143) << ran.err;
}

TEST_F(Cluster, DoesNotRestartAJobWithBadInput) {
  const Ran ran = runs("bad_input:1", {"--max-restarts", "9"});
  EXPECT_EQ(ran.exit.code, 2) << ran.err;
  EXPECT_THAT(ran.err, Not(HasSubstr("generation 2")));
}

}  // namespace
}  // namespace pfc
