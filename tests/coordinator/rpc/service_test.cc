// The coordinator over real gRPC: agents and workers are only voices.
#include "coordinator/rpc/service.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <future>

#include "common/error.h"
#include "common/version.h"
#include "proto/channel.h"
#include "proto/coordinator.grpc.pb.h"
#include "tests/coordinator/running_coordinator.h"
#include "tests/support/error_message.h"
#include "worker/report/coordinator_client.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using testing::RunningCoordinator;
using testing::wait_until;

constexpr const char* kJob = "0123456789abcdef";

/// An agent that registers, and starts nothing.
class VoiceOfAgent {
 public:
  VoiceOfAgent(const std::string& address, const std::string& host, const std::string& id = "first",
               const std::string& its_version = version())
      : stub_(proto::CoordinatorService::NewStub(make_channel(address))),
        stream_(stub_->AttachAgent(&context_)) {
    proto::AgentMessage message;
    message.mutable_registration()->set_host(host);
    message.mutable_registration()->set_agent_id(id);
    message.mutable_registration()->set_version(its_version);
    stream_->Write(message);
  }
  ~VoiceOfAgent() {
    context_.TryCancel();
    if (!finished_) stream_->Finish();
  }

  proto::AgentCommand hears() {
    proto::AgentCommand command;
    EXPECT_TRUE(stream_->Read(&command)) << "the coordinator has closed the stream";
    return command;
  }

  /// The workers that are wanted, once there are some.
  proto::DesiredSlots is_told_workers() {
    while (true) {
      const proto::AgentCommand command = hears();
      const bool ended = !command.has_desired() && !command.has_registered();
      if (command.desired().slots_size() > 0 || ended) return command.desired();
    }
  }

  /// Why the coordinator has closed the stream.
  grpc::Status is_refused() {
    proto::AgentCommand command;
    while (stream_->Read(&command)) {
    }
    finished_ = true;
    return stream_->Finish();
  }

  void tells_output(int slot, const std::string& line) {
    proto::AgentMessage message;
    message.set_job_id(kJob);
    message.mutable_output()->set_slot(slot);
    message.mutable_output()->set_incarnation(1);
    message.mutable_output()->add_lines(line);
    stream_->Write(message);
  }

  void tells_exit(int slot, int signal, const std::string& job_id = kJob) {
    proto::AgentMessage message;
    message.set_job_id(job_id);
    message.mutable_exited()->set_slot(slot);
    message.mutable_exited()->set_incarnation(1);
    message.mutable_exited()->set_signal(signal);
    stream_->Write(message);
  }

 private:
  bool finished_ = false;
  grpc::ClientContext context_;
  std::unique_ptr<proto::CoordinatorService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::AgentMessage, proto::AgentCommand>> stream_;
};

class Service : public ::testing::Test {
 protected:
  /// Of the agent "first", the only one of its host: its slot is its rank.
  [[nodiscard]] CoordinatorClientOptions options(int slot) const {
    return {.address = coordinator.address(), .job_id = kJob, .agent_id = "first", .slot = slot};
  }
  std::unique_ptr<CoordinatorClient> worker(int slot) {
    return connect_to_coordinator(options(slot));
  }

  std::unique_ptr<proto::CoordinatorService::Stub> stub() {
    return proto::CoordinatorService::NewStub(make_channel(coordinator.address()));
  }

  grpc::Status sets_a_value(const std::string& job_id, Generation generation) {
    grpc::ClientContext context;
    proto::SetValueRequest request;
    proto::SetValueReply reply;
    request.set_job_id(job_id);
    request.set_generation(generation);
    request.set_key("key");
    return stub()->SetValue(&context, request, &reply);
  }

  grpc::Status attaches(const std::string& job_id, Generation generation) {
    grpc::ClientContext context;
    const auto its_stub = stub();
    const auto stream = its_stub->AttachWorker(&context);
    proto::WorkerMessage message;
    message.set_job_id(job_id);
    message.set_generation(generation);
    stream->Write(message);
    proto::WorkerCommand command;
    while (stream->Read(&command)) {
    }
    return stream->Finish();
  }

  grpc::Status stops(const std::string& job_id) {
    grpc::ClientContext context;
    proto::StopRequest request;
    proto::StopReply reply;
    request.set_job_id(job_id);
    return stub()->Stop(&context, request, &reply);
  }

  void begin_generation() {
    agent = std::make_unique<VoiceOfAgent>(coordinator.address(), "a");
    EXPECT_TRUE(agent->hears().has_registered());
    EXPECT_EQ(agent->is_told_workers().slots_size(), 2);
  }

  void join_both() {
    begin_generation();
    first = worker(0);
    second = worker(1);
    auto joining = std::async(std::launch::async, [&] { return first->join(20s); });
    second->join(20s);
    joining.get();
  }

  RunningCoordinator coordinator{{{.name = "a", .slots = 2}}};
  std::unique_ptr<VoiceOfAgent> agent;
  std::unique_ptr<CoordinatorClient> first;
  std::unique_ptr<CoordinatorClient> second;
};

TEST_F(Service, RegistersAnAgentAndSendsItTheWorkersToStart) {
  VoiceOfAgent a(coordinator.address(), "a");
  EXPECT_EQ(a.hears().registered().host(), "a");
  const proto::DesiredSlots wanted = a.is_told_workers();
  ASSERT_EQ(wanted.slots_size(), 2);
  EXPECT_EQ(wanted.slots(1).slot(), 1);
  EXPECT_EQ(wanted.slots(1).incarnation(), 1);
  EXPECT_EQ(wanted.slots(1).wish(), proto::DesiredSlots::RUN);
}

TEST_F(Service, RefusesAHostThatIsNotInTheList) {
  const grpc::Status status = VoiceOfAgent(coordinator.address(), "c").is_refused();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("host c"), HasSubstr("--hosts")));
}

TEST_F(Service, RefusesAnotherVersionAndNamesBoth) {
  const grpc::Status status = VoiceOfAgent(coordinator.address(), "a", "x", "0.0.1").is_refused();
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("0.0.1"), HasSubstr(version())));
}

TEST_F(Service, LetsAnAgentThatWasStartedAgainTakeOverAndRefusesTheOldOne) {
  begin_generation();
  VoiceOfAgent second_agent(coordinator.address(), "a", "second");
  EXPECT_TRUE(second_agent.hears().has_registered());
  EXPECT_THAT(agent->is_refused().error_message(),
              HasSubstr("another pfc-agent was started on host a later"));
  const grpc::Status again = VoiceOfAgent(coordinator.address(), "a", "first").is_refused();
  EXPECT_EQ(again.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(again.error_message(), HasSubstr("another pfc-agent was started on host a later"));
}

TEST_F(Service, WantsTheWorkersOfAnAgentThatWasStartedAgainAnewBeforeTheyHaveJoined) {
  begin_generation();
  auto joining = std::async(std::launch::async,
                            [&] { return message_of<CommError>([&] { worker(0)->join(20s); }); });
  wait_until([&] { return coordinator.status().workers(0).state() == "joined"; });
  VoiceOfAgent second_agent(coordinator.address(), "a", "second");
  const proto::DesiredSlots wanted = second_agent.is_told_workers();
  ASSERT_EQ(wanted.slots_size(), 2);
  EXPECT_EQ(wanted.slots(0).incarnation(), 2);
  EXPECT_THAT(message_of<CommError>([&] { worker(1)->join(1s); }),
              HasSubstr("slot 1, incarnation 1 of this agent is not wanted"));
  std::vector<std::future<JoinResult>> joined;
  std::vector<std::unique_ptr<CoordinatorClient>> anew;
  for (const int slot : {0, 1}) {
    CoordinatorClientOptions its = options(slot);
    its.agent_id = "second";
    its.incarnation = 2;
    anew.push_back(connect_to_coordinator(its));
    joined.push_back(std::async(std::launch::async, [&, slot] { return anew[slot]->join(20s); }));
  }
  EXPECT_EQ(joined[0].get().membership.rank, 0);
  EXPECT_EQ(joined[1].get().membership.rank, 1);
  EXPECT_THAT(joining.get(), HasSubstr("joins a second time"));
}

TEST_F(Service, FailsAJobThatTrainsWhenAnAgentIsStartedAgain) {
  join_both();
  VoiceOfAgent second_agent(coordinator.address(), "a", "second");
  EXPECT_EQ(coordinator.verdict().message,
            "job failed: host a: its pfc-agent was started again, and its workers have ended with "
            "the old one");
}

TEST_F(Service, AnswersJoinsWhenEveryRankHasJoined) {
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
  EXPECT_EQ(joining.get().membership.rank, 0);
}

TEST_F(Service, RefusesAJoinAfterItsTimeAndNamesTheMissing) {
  begin_generation();
  first = worker(0);
  EXPECT_THAT(message_of<CommError>([&] { first->join(50ms); }),
              HasSubstr("rank 1 (host a, slot 1) has not joined after"));
}

TEST_F(Service, RefusesTheJoinOfAWorkerThatIsNotWanted) {
  begin_generation();
  EXPECT_THAT(message_of<CommError>([&] { worker(7)->join(1s); }),
              HasSubstr("slot 7, incarnation 1 of this agent is not wanted"));
  EXPECT_THAT(message_of<CommError>([&] { worker(-1)->join(1s); }), HasSubstr("slot -1"));
  CoordinatorClientOptions of_another_agent = options(0);
  of_another_agent.agent_id = "second";
  EXPECT_THAT(message_of<CommError>([&] { connect_to_coordinator(of_another_agent)->join(1s); }),
              HasSubstr("is not wanted"));
}

// A worker that has outlived its coordinator once joined the job of the next one as its rank 0.
TEST_F(Service, RefusesTheWorkerOfAnotherJobInOneLine) {
  begin_generation();
  CoordinatorClientOptions strange = options(0);
  strange.job_id = "fedcba9876543210";
  const auto stranger = connect_to_coordinator(strange);
  EXPECT_EQ(message_of<CommError>([&] { stranger->join(1s); }),
            "join: job fedcba9876543210 is refused: this coordinator's job is 0123456789abcdef; "
            "end what was started for another one");
  EXPECT_TRUE(stranger->superseded());
  stranger->finish(CoordinatorClient::Outcome::kFailed, "not mine to tell");
  const proto::StatusReply status = coordinator.status();
  EXPECT_EQ(status.state(), "starting");
  EXPECT_EQ(status.workers(0).state(), "starting");
}

TEST_F(Service, RefusesEveryRequestOfAnotherGeneration) {
  join_both();
  for (const Generation generation : {0, 2, 99}) {
    for (const grpc::Status& status :
         {sets_a_value(kJob, generation), attaches(kJob, generation)}) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
      EXPECT_THAT(status.error_message(), HasSubstr("generation " + std::to_string(generation) +
                                                    " is not the current one, which is 1"));
    }
  }
  EXPECT_THAT(message_of<CommError>([&] { first->get("key", 10ms); }), HasSubstr("'key'"));
  EXPECT_EQ(coordinator.status().state(), "training");
}

TEST_F(Service, RefusesEveryRequestOfAnotherJob) {
  join_both();
  for (const std::string job : {"", "another"}) {
    for (const grpc::Status& status : {sets_a_value(job, 1), attaches(job, 1), stops(job)}) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
      EXPECT_THAT(status.error_message(), HasSubstr("this coordinator's job is 0123456789abcdef"));
    }
  }
  EXPECT_EQ(coordinator.status().state(), "training");
}

TEST_F(Service, DoesNotListenToWhatAnAgentTellsOfAnotherJob) {
  join_both();
  agent->tells_exit(0, SIGKILL, "another");
  agent->tells_exit(1, SIGTERM);
  wait_until([&] { return coordinator.status().workers(1).state() == "exited"; });
  EXPECT_EQ(coordinator.status().workers(0).state(), "joined");
}

TEST_F(Service, GivesTheValuesOfOneWorkerToTheOthers) {
  join_both();
  auto waiting = std::async(std::launch::async, [&] { return second->get("nccl/id", 20s); });
  const std::vector<char> opaque{'\0', '\xff', 'x', '\n'};
  first->set("nccl/id", opaque);
  EXPECT_EQ(waiting.get(), opaque);
}

TEST_F(Service, NamesAMissingValueAfterItsTime) {
  join_both();
  EXPECT_THAT(message_of<CommError>([&] { first->get("gloo/7", 30ms); }),
              HasSubstr("key 'gloo/7' was not set in time"));
}

TEST_F(Service, KeepsTheProgressThatComesWithTheEnd) {
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

TEST_F(Service, PassesAStopToTheWorkers) {
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
TEST_F(Service, KeepsTheReasonOfAStopRequest) {
  join_both();
  const auto its_stub = stub();
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    proto::StopRequest request;
    proto::StopReply reply;
    request.set_job_id(kJob);
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

TEST_F(Service, AnswersAStatusRequestAfterAReportThatIsNoText) {
  join_both();
  first->finish(CoordinatorClient::Outcome::kFailed, "\xc0\x80\ncaf\xe9");
  grpc::ClientContext context;
  proto::StatusReply reply;
  EXPECT_TRUE(stub()->Status(&context, proto::StatusRequest(), &reply).ok());
  EXPECT_THAT(reply.reason(), HasSubstr("?? caf?"));
}

TEST_F(Service, FailsTheJobOfASilentWorker) {
  RendezvousConfig config = testing::impatient();
  config.limits.silence = 1500ms;
  RunningCoordinator other({{.name = "a", .slots = 1}}, config);
  VoiceOfAgent voice(other.address(), "a");
  CoordinatorClientOptions its = options(0);
  its.address = other.address();
  auto lonely = connect_to_coordinator(its);
  voice.is_told_workers();
  lonely->join(10s);
  EXPECT_THAT(other.status().state(), "training");
  lonely.reset();  // its heartbeats end, and so do those of its agent
  EXPECT_EQ(voice.is_told_workers().slots(0).wish(), proto::DesiredSlots::TERMINATE);
  voice.tells_exit(0, SIGTERM);
  EXPECT_THAT(other.verdict().message, HasSubstr("silent for"));
}

TEST_F(Service, NamesAPortInUseAndWhatToDo) {
  EXPECT_THAT(message_of<InputError>([&] { RunningCoordinator({}, {}, coordinator.port()); }),
              AllOf(HasSubstr(std::to_string(coordinator.port())), HasSubstr("in use"),
                    HasSubstr("--port")));
}

TEST_F(Service, AnswersEveryWaitingRequestWhenItCloses) {
  begin_generation();
  auto joining = std::async(std::launch::async,
                            [&] { return message_of<CommError>([&] { worker(0)->join(300ms); }); });
  wait_until([&] { return coordinator.status().workers(0).state() == "joined"; });
  coordinator.shut_down();
  EXPECT_THAT(joining.get(), HasSubstr("cannot be reached"));
}

}  // namespace
}  // namespace pfc
