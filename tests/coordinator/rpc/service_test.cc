// Tests the coordinator over real gRPC with fake agents and workers.
#include "coordinator/rpc/service.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/version.h"
#include "common/workers/store_keys.h"
#include "tests/coordinator/rpc/service_fixture.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kJob;
using testing::message_of;
using testing::RunningCoordinator;
using testing::ServiceOfOneHost;
using testing::VoiceOfAgent;
using testing::wait_until;

TEST_F(ServiceOfOneHost, RegistersAnAgentAndSendsItTheWorkersToStart) {
  VoiceOfAgent a(coordinator.address(), "a");
  EXPECT_EQ(a.hears().registered().host(), "a");
  const proto::DesiredSlots wanted = a.is_told_workers();
  ASSERT_EQ(wanted.slots_size(), 2);
  EXPECT_EQ(wanted.slots(1).slot(), 1);
  EXPECT_EQ(wanted.slots(1).incarnation(), 1);
  EXPECT_EQ(wanted.slots(1).wish(), proto::DesiredSlots::RUN);
}

TEST_F(ServiceOfOneHost, PassesAFaultToTheAgentAndReturnsItsReply) {
  begin_generation();
  const auto breaks = [&](const std::string& problem, grpc::Status& status) {
    proto::InjectFaultRequest request;
    request.set_job_id(kJob);
    request.set_kind(proto::FAULT_KILL_WORKER);
    request.set_rank(1);
    proto::InjectFaultReply reply;
    auto call = std::async(std::launch::async, [&] {
      grpc::ClientContext context;
      return stub()->InjectFault(&context, request, &reply);
    });
    const proto::Fault fault = agent->hears().fault();
    EXPECT_EQ(fault.kind(), proto::FAULT_KILL_WORKER);
    EXPECT_EQ(fault.slot(), 1);
    agent->tells_fault(fault.request(), problem);
    status = call.get();
    return reply.target();
  };
  grpc::Status status;
  EXPECT_THAT(breaks("", status), HasSubstr("rank 1 (host a, slot 1"));
  EXPECT_TRUE(status.ok());
  EXPECT_THAT(coordinator.output(), HasSubstr("pfcctl chaos kills rank 1 (host a, slot 1"));
  breaks("not allowed", status);
  EXPECT_EQ(status.error_message(), "host a: not allowed");
}

TEST_F(ServiceOfOneHost, RefusesAHostThatIsNotInTheList) {
  const grpc::Status status = VoiceOfAgent(coordinator.address(), "c").is_refused();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("host c"), HasSubstr("--hosts")));
}

TEST_F(ServiceOfOneHost, RefusesAnotherVersionAndNamesBoth) {
  const grpc::Status status = VoiceOfAgent(coordinator.address(), "a", "x", "0.0.1").is_refused();
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("0.0.1"), HasSubstr(version())));
}

TEST_F(ServiceOfOneHost, LetsANewAgentReplaceTheOldAgentWhichIsThenRefused) {
  begin_generation();
  VoiceOfAgent second_agent(coordinator.address(), "a", "second");
  EXPECT_TRUE(second_agent.hears().has_registered());
  EXPECT_THAT(agent->is_refused().error_message(),
              HasSubstr("another pfc-agent was started on host a later"));
  const grpc::Status again = VoiceOfAgent(coordinator.address(), "a", "first").is_refused();
  EXPECT_EQ(again.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(again.error_message(), HasSubstr("another pfc-agent was started on host a later"));
}

TEST_F(ServiceOfOneHost, ReplacesUnjoinedWorkersOfARestartedAgent) {
  begin_generation();
  auto joining = std::async(std::launch::async,
                            [&] { return message_of<CommError>([&] { worker(0)->join(20s); }); });
  wait_until([&] { return coordinator.status().workers(0).state() == "joined"; });
  VoiceOfAgent second_agent(coordinator.address(), "a", "second");
  const proto::DesiredSlots wanted = second_agent.is_told_workers();
  ASSERT_EQ(wanted.slots_size(), 2);
  EXPECT_EQ(wanted.slots(0).incarnation(), 2);
  EXPECT_THAT(message_of<CommError>([&] { worker(1)->join(1s); }),
              HasSubstr("slot 1 of this agent (incarnation 1) is not expected"));
  std::vector<std::future<JoinResult>> joined;
  std::vector<std::unique_ptr<CoordinatorClient>> anew;
  for (const int slot : {0, 1}) {
    CoordinatorClientOptions its = options(slot);
    its.agent_id = "second";
    its.incarnation = 2;
    anew.push_back(connect_to_coordinator(its));
    joined.push_back(
        std::async(std::launch::async, [one = anew.back().get()] { return one->join(20s); }));
  }
  EXPECT_EQ(joined[0].get().membership.rank, 0);
  EXPECT_EQ(joined[1].get().membership.rank, 1);
  EXPECT_THAT(joining.get(), HasSubstr("another process has this worker's place"));
}

TEST_F(ServiceOfOneHost, FailsATrainingJobWhenAnAgentIsRestarted) {
  join_both();
  VoiceOfAgent second_agent(coordinator.address(), "a", "second");
  EXPECT_EQ(coordinator.verdict().message,
            "job failed: host a: its pfc-agent was started again, and its workers have ended with "
            "the old one");
}

TEST_F(ServiceOfOneHost, AnswersJoinsWhenEveryRankHasJoined) {
  begin_generation();
  first = worker(0);
  second = worker(1);
  auto joining = std::async(std::launch::async, [&] { return first->join(20s); });
  const JoinResult joined = second->join(20s);
  EXPECT_EQ(
      joined.membership,
      (Membership{
          .rank = 1, .world_size = 2, .generation = 1, .local_rank = 1, .local_world_size = 2}));
  EXPECT_EQ(joined.job_json, R"({"network":"r18"})");
  EXPECT_EQ(joined.peer_address, "127.0.0.1");
  EXPECT_EQ(joined.host, "a");
  EXPECT_EQ(joining.get().membership.rank, 0);
}

TEST_F(ServiceOfOneHost, RefusesAJoinAfterItsTimeoutAndNamesTheMissingRank) {
  begin_generation();
  first = worker(0);
  EXPECT_THAT(message_of<CommError>([&] { first->join(50ms); }),
              HasSubstr("rank 1 (host a, slot 1) has not joined after"));
}

TEST_F(ServiceOfOneHost, RefusesToLetAnUnexpectedWorkerJoin) {
  begin_generation();
  EXPECT_THAT(message_of<CommError>([&] { worker(7)->join(1s); }),
              HasSubstr("slot 7 of this agent (incarnation 1) is not expected"));
  EXPECT_THAT(message_of<CommError>([&] { worker(-1)->join(1s); }), HasSubstr("slot -1"));
  CoordinatorClientOptions of_another_agent = options(0);
  of_another_agent.agent_id = "second";
  EXPECT_THAT(message_of<CommError>([&] { connect_to_coordinator(of_another_agent)->join(1s); }),
              HasSubstr("is not expected"));
}

// Regression: a worker that outlived its coordinator joined the next one's job as rank 0.
TEST_F(ServiceOfOneHost, RefusesTheWorkerOfAnotherJobInOneLine) {
  begin_generation();
  CoordinatorClientOptions strange = options(0);
  strange.job_id = "fedcba9876543210";
  const auto stranger = connect_to_coordinator(strange);
  EXPECT_EQ(message_of<CommError>([&] { stranger->join(1s); }),
            "join: job fedcba9876543210 is refused: this coordinator's job is 0123456789abcdef; "
            "end processes that were started for another job");
  EXPECT_TRUE(testing::is_superseded(*stranger));
  stranger->finish(CoordinatorClient::Outcome::kFailed, "not mine to tell");
  const proto::StatusReply status = coordinator.status();
  EXPECT_EQ(status.state(), "starting");
  EXPECT_EQ(status.workers(0).state(), "starting");
}

TEST_F(ServiceOfOneHost, RefusesEveryRequestOfAnotherGeneration) {
  join_both();
  for (const Generation generation : {0, 2, 99}) {
    for (const grpc::Status& status :
         {sets_a_value(kJob, generation), attaches(kJob, generation)}) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
      EXPECT_THAT(status.error_message(),
                  HasSubstr("generation " + std::to_string(generation) +
                            " is not current; the current generation is 1"));
    }
  }
  EXPECT_THAT(message_of<CommError>([&] { first->get("key", 10ms); }), HasSubstr("'key'"));
  EXPECT_EQ(coordinator.status().state(), "training");
}

TEST_F(ServiceOfOneHost, RefusesEveryRequestOfAnotherJob) {
  join_both();
  for (const std::string job : {"", "another"}) {
    for (const grpc::Status& status : {sets_a_value(job, 1), attaches(job, 1), stops(job)}) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
      EXPECT_THAT(status.error_message(), HasSubstr("this coordinator's job is 0123456789abcdef"));
    }
  }
  EXPECT_EQ(coordinator.status().state(), "training");
}

TEST_F(ServiceOfOneHost, IgnoresReportsOfAnAgentAboutAnotherJob) {
  join_both();
  agent->tells_exit(0, SIGKILL, "another");
  agent->tells_exit(1, SIGTERM);
  wait_until([&] { return coordinator.status().workers(1).state() == "exited"; });
  EXPECT_EQ(coordinator.status().workers(0).state(), "joined");
}

TEST_F(ServiceOfOneHost, SendsAValueThatOneWorkerSetsToTheOthers) {
  join_both();
  auto waiting = std::async(std::launch::async, [&] { return second->get("nccl/id", 20s); });
  const std::vector<char> opaque{'\0', '\xff', 'x', '\n'};
  first->set("nccl/id", opaque);
  EXPECT_EQ(waiting.get(), opaque);
}

TEST_F(ServiceOfOneHost, ReturnsTheValuesOfAllWorkersInOneCall) {
  join_both();
  auto waiting = std::async(std::launch::async, [&] { return second->get_all("here/", 2, 20s); });
  second->set("here/1", {'b'});
  first->set("here/0", {});
  const auto values = waiting.get();
  EXPECT_THAT(values, ElementsAre(std::vector<char>{}, std::vector<char>{'b'}));
  EXPECT_THAT(first->get_all("there/", 2, 10ms), ElementsAre(std::nullopt, std::nullopt));
}

TEST_F(ServiceOfOneHost, RefusesARequestForMoreValuesThanWorkers) {
  join_both();
  EXPECT_THAT(message_of<CommError>([&] { first->get_all("here/", 3, 1s); }),
              HasSubstr("found 3 keys, expected at most one for each of the 2 workers"));
}

TEST_F(ServiceOfOneHost, NamesAMissingValueAfterTheTimeout) {
  join_both();
  EXPECT_THAT(message_of<CommError>([&] { first->get("gloo/7", 30ms); }),
              HasSubstr("key 'gloo/7' was not set in time"));
}

TEST_F(ServiceOfOneHost, KeepsTheProgressInAWorkersFinalReport) {
  join_both();
  Progress progress{.step = 41, .total_steps = 100, .phase = "forward", .loss = 3.5};
  progress.samples_per_second = 20;
  first->report(progress);
  wait_until([&] { return coordinator.status().step() == 41; });
  progress.step = 42;
  first->report(progress);
  first->finish(CoordinatorClient::Outcome::kCompleted, "");
  const proto::StatusReply status = coordinator.status();
  EXPECT_EQ(status.step(), 42);
  EXPECT_EQ(status.workers(0).state(), "completed");
  EXPECT_EQ(status.workers(1).state(), "joined");
}

TEST_F(ServiceOfOneHost, PassesAStopToTheWorkers) {
  join_both();
  EXPECT_FALSE(first->stop_requested());
  coordinator.stop("SIGINT", false);
  wait_until([&] { return first->stop_requested() && second->stop_requested(); });
  for (CoordinatorClient* each : {first.get(), second.get()}) {
    each->finish(CoordinatorClient::Outcome::kStopped, "");
  }
  agent->tells_exit(0, 0);
  agent->tells_exit(1, 0);
  EXPECT_EQ(coordinator.verdict().kind, Verdict::Kind::kStopped);
}

// gRPC frees a request when its call has been answered.
TEST_F(ServiceOfOneHost, KeepsTheReasonOfAStopRequest) {
  join_both();
  const auto its_stub = stub();
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    proto::StopRequest request;
    proto::StopReply reply;
    request.set_job(kJob);
    request.set_reason("a person, " + std::string(200, 'x'));
    ASSERT_TRUE(its_stub->Stop(&context, request, &reply).ok());
  }
  wait_until([&] { return first->stop_requested() && second->stop_requested(); });
  for (CoordinatorClient* each : {first.get(), second.get()}) {
    each->finish(CoordinatorClient::Outcome::kStopped, "");
  }
  agent->tells_exit(0, 0);
  agent->tells_exit(1, 0);
  EXPECT_EQ(coordinator.verdict().message, "job stopped by a person, " + std::string(200, 'x'));
}

TEST_F(ServiceOfOneHost, AnswersAStatusRequestAfterAReportThatIsNotUtf8) {
  join_both();
  first->finish(CoordinatorClient::Outcome::kFailed, "\xc0\x80\ncaf\xe9");
  grpc::ClientContext context;
  proto::StatusReply reply;
  EXPECT_TRUE(stub()->Status(&context, proto::StatusRequest(), &reply).ok());
  EXPECT_THAT(reply.reason(), HasSubstr("?? caf?"));
}

TEST_F(ServiceOfOneHost, FailsTheJobOfASilentWorker) {
  RendezvousConfig config = testing::impatient();
  config.limits.silence = 5s;
  RunningCoordinator other({{.name = "a", .slots = 1}}, config);
  VoiceOfAgent voice(other.address(), "a");
  CoordinatorClientOptions its = options(0);
  its.address = other.address();
  auto lonely = connect_to_coordinator(its);
  voice.is_told_workers();
  lonely->join(20s);
  EXPECT_THAT(other.status().state(), "training");
  lonely.reset();  // ends its heartbeats and those of its agent
  EXPECT_EQ(voice.is_told_workers().slots(0).wish(), proto::DesiredSlots::TERMINATE);
  voice.tells_exit(0, SIGTERM);
  EXPECT_THAT(other.verdict().message, HasSubstr("silent for"));
}

TEST_F(ServiceOfOneHost, NamesAStuckWorkerWithItsAgentsDescription) {
  RendezvousConfig config = testing::impatient();
  config.limits.pace = {.floor = 1s, .factor = 1, .unknown = 1s};
  RunningCoordinator other({{.name = "a", .slots = 2}}, config);
  VoiceOfAgent voice(other.address(), "a");
  std::vector<std::unique_ptr<CoordinatorClient>> workers;
  for (const int slot : {0, 1}) {
    CoordinatorClientOptions its = options(slot);
    its.address = other.address();
    workers.push_back(connect_to_coordinator(its));
  }
  voice.is_told_workers();
  auto joining = std::async(std::launch::async, [&] { return workers[0]->join(20s); });
  workers[1]->join(20s);
  joining.get();
  Progress waits{.step = 3, .phase = "all_gather"}, stuck{.step = 3, .phase = "forward"};
  waits.comm = {{.purpose = "step", .calls = 9, .done = 8, .newest = "all_gather"}};
  stuck.comm = {{.purpose = "step", .calls = 8, .done = 8, .newest = "all_reduce"}};
  workers[0]->report(waits);
  workers[1]->report(stuck);
  proto::AgentCommand asked;
  while (!asked.has_describe()) asked = voice.hears();
  EXPECT_EQ(asked.describe().slot(), 1);
  const auto doing = workers[0]->get(doing_key(1), 60s);
  EXPECT_THAT(std::string(doing.begin(), doing.end()), HasSubstr("at step 3 in forward for "));
  voice.tells_description(1, "state R (runs)\nmain thread computes");
  EXPECT_EQ(voice.is_told_workers().slots(0).wish(), proto::DesiredSlots::TERMINATE);
  voice.tells_exit(0, SIGTERM);
  voice.tells_exit(1, SIGTERM);
  EXPECT_THAT(
      other.verdict().message,
      AllOf(HasSubstr("rank 1 (host a, slot 1): no progress for "),
            HasSubstr("at step 3 in forward while 1 other worker waits for it in all_gather "
                      "(number 9 of communicator 'step'); state R (runs) main thread computes")));
}

TEST_F(ServiceOfOneHost, NamesAPortInUseAndWhatToDo) {
  EXPECT_THAT(message_of<InputError>([&] { RunningCoordinator({}, {}, coordinator.port()); }),
              AllOf(HasSubstr(std::to_string(coordinator.port())), HasSubstr("in use"),
                    HasSubstr("--port")));
}

TEST_F(ServiceOfOneHost, AnswersEveryWaitingRequestWhenItCloses) {
  begin_generation();
  auto joining = std::async(std::launch::async,
                            [&] { return message_of<CommError>([&] { worker(0)->join(15s); }); });
  wait_until([&] { return coordinator.status().workers(0).state() == "joined"; });
  coordinator.shut_down();
  EXPECT_THAT(joining.get(), HasSubstr("cannot be reached"));
}

}  // namespace
}  // namespace pfc
