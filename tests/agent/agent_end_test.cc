// Tests how an agent ends with its workers. The coordinator runs in this process too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "proto/channel.h"
#include "proto/coordinator.grpc.pb.h"
#include "tests/agent/agent_fixture.h"
#include "tests/coordinator/running_coordinator.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using testing::AgentOfAHost;
using ::testing::HasSubstr;
using testing::RunningAgent;
using testing::RunningCoordinator;
using testing::wait_until;

TEST_F(AgentOfAHost, LetsTheCoordinatorStopTheJobWhenItsHostIsDrained) {
  workers_do("trap 'exit 0' TERM; echo started; while :; do sleep 0.01; done");
  RunningCoordinator coordinator({{.name = "a", .slots = 1}});
  RunningAgent agent(options(coordinator.address()));
  wait_until([&] {
    return coordinator.status().workers_size() == 1 && coordinator.status().workers(0).pid() != 0;
  });
  agent.leave();
  const Verdict verdict = coordinator.verdict();
  EXPECT_TRUE(verdict.host_left);
  EXPECT_EQ(verdict.message, "job stopped: host a is leaving (SIGTERM) before training began");
  coordinator.shut_down();
  EXPECT_THAT(coordinator.output(), HasSubstr("host a is leaving (SIGTERM): the workers write"));
  EXPECT_EQ(agent.problem(), "");
}

TEST_F(AgentOfAHost, EndsWithTheJobWhenDrainedAndStartsNoWorkerOfTheNextJob) {
  workers_do("echo $4 >>\"${0%/*}/jobs\"; trap 'exit 0' TERM; while :; do sleep 0.01; done");
  RunningCoordinator coordinator({{.name = "a", .slots = 1}}, testing::impatient(), 0, "");
  const auto stub = proto::CoordinatorService::NewStub(make_channel(coordinator.address()));
  for (int job = 0; job < 2; ++job) {
    grpc::ClientContext context;
    proto::SubmitRequest request;
    proto::SubmitReply reply;
    request.set_job_json(R"({"network":"r18","rec":"/data"})");
    EXPECT_TRUE(stub->Submit(&context, request, &reply).ok());
  }
  AgentOptions staying = options(coordinator.address());
  staying.stays = true;
  staying.leave_grace = 20s;
  RunningAgent agent(staying);
  const auto started = [&] {
    std::error_code none;
    const std::uintmax_t bytes = std::filesystem::file_size(folder / "jobs", none);
    return !none && bytes > 0;
  };
  wait_until([&] { return started() && coordinator.status().workers_size() == 1; });
  agent.leave();
  EXPECT_EQ(agent.problem(), "");
  std::ifstream jobs(folder / "jobs");
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(jobs), {}, '\n'), 1);
  EXPECT_EQ(coordinator.status().jobs_waiting(), 1);
}

/// Waits until the agent knows the job.
void wait_for_answer_of(RunningCoordinator& coordinator, const std::string& host) {
  const auto stub = proto::CoordinatorService::NewStub(make_channel(coordinator.address()));
  grpc::ClientContext context;
  proto::InjectFaultRequest request;
  proto::InjectFaultReply reply;
  request.set_job_id(coordinator.status().job_id());
  request.set_host(host);
  request.set_kind(proto::FAULT_KILL_AGENT);
  request.set_only_ask(true);
  EXPECT_THAT(stub->InjectFault(&context, request, &reply).error_message(),
              HasSubstr("does not allow faults"));
}

TEST_F(AgentOfAHost, ReportsADrainWithoutWorkersToTheCoordinator) {
  workers_do("while :; do sleep 0.01; done");
  RendezvousConfig config = testing::impatient();
  config.elastic.spares = 1;
  RunningCoordinator coordinator({{.name = "a", .slots = 1}, {.name = "b", .slots = 1}}, config);
  RunningAgent first(options(coordinator.address(), "a"));
  RunningAgent spare(options(coordinator.address(), "b"));
  wait_until([&] { return coordinator.status().workers_size() == 1; });
  wait_for_answer_of(coordinator, "b");
  spare.leave();
  EXPECT_EQ(spare.problem(), "");
  EXPECT_FALSE(coordinator.status().hosts(1).registered());
  coordinator.stop("the test", true);
  coordinator.verdict();
  coordinator.shut_down();
  EXPECT_THAT(coordinator.output(),
              HasSubstr("host b, where no worker runs, is leaving (SIGTERM)"));
}

TEST_F(AgentOfAHost, EndsImmediatelyWhenDrainedWithoutACoordinator) {
  AgentOptions alone = options("127.0.0.1:1");
  alone.patience = 1h;
  RunningAgent agent(alone);
  agent.leave();
  EXPECT_EQ(agent.problem(), "");
}

TEST_F(AgentOfAHost, EndsItsWorkersWhenTheGracePeriodIsOver) {
  // The coordinator gives its workers more time than this host does.
  workers_do("trap '' TERM; while :; do sleep 0.01; done");
  RendezvousConfig patient = testing::impatient();
  patient.terminate = 1h;
  RunningCoordinator coordinator({{.name = "a", .slots = 1}}, patient);
  AgentOptions hurried = options(coordinator.address());
  hurried.leave_grace = 100ms;
  RunningAgent agent(hurried);
  wait_until([&] {
    return coordinator.status().workers_size() == 1 && coordinator.status().workers(0).pid() != 0;
  });
  agent.leave();
  EXPECT_EQ(agent.problem(), "");
}

TEST_F(AgentOfAHost, KillsAWorkerThatIgnoresSigtermAndItsChildren) {
  workers_do("trap '' TERM; sleep 1000 & echo $! > " + (folder / "child").string() +
             "; echo ready; wait; wait");
  RunningCoordinator coordinator({{.name = "a", .slots = 1}});
  RunningAgent agent(options(coordinator.address()));
  wait_until([&] {
    return std::filesystem::exists(folder / "child") &&
           std::filesystem::file_size(folder / "child") > 0;
  });
  int child = 0;
  std::ifstream(folder / "child") >> child;
  coordinator.stop("SIGTERM", true);
  EXPECT_EQ(coordinator.verdict().kind, Verdict::Kind::kStopped);
  coordinator.shut_down();
  EXPECT_EQ(agent.problem(), "");
  // Killed immediately; its new parent (init) may take a moment to reap it.
  wait_until([&] {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string pid, name, state;
    return !(stat >> pid >> name >> state) || state == "Z";
  });
}

TEST_F(AgentOfAHost, KillsItsWorkersImmediatelyOnASecondSignal) {
  workers_do("trap '' TERM; echo > " + (folder / "started").string() + "; sleep 1000");
  RunningCoordinator coordinator({{.name = "a", .slots = 1}});
  AgentOptions patient = options(coordinator.address());
  patient.grace = 1h;
  RunningAgent agent(patient);
  wait_until([&] { return std::filesystem::exists(folder / "started"); });
  agent.end_twice();
  EXPECT_EQ(agent.problem(), "");
}

TEST_F(AgentOfAHost, EndsWhenTheCoordinatorDoesNotKnowItsHost) {
  RunningCoordinator coordinator({{.name = "a", .slots = 1}});
  RunningAgent agent(options(coordinator.address(), "c"));
  EXPECT_THAT(agent.problem(), HasSubstr("host c"));
}

TEST_F(AgentOfAHost, EndsWhenItCannotReachTheCoordinator) {
  AgentOptions impatient = options("127.0.0.1:1");
  impatient.patience = 500ms;
  RunningAgent agent(impatient);
  EXPECT_THAT(agent.problem(), HasSubstr("coordinator 127.0.0.1:1 cannot be reached for"));
}

}  // namespace
}  // namespace pfc
