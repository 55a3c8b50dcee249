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
using testing::RunningCoordinator;
using testing::wait_until;

/// An agent that registers, and starts nothing.
class VoiceOfAgent {
 public:
  VoiceOfAgent(const std::string& address, const std::string& host,
               const std::string& its_version = version())
      : stub_(proto::CoordinatorService::NewStub(make_channel(address))),
        stream_(stub_->AttachAgent(&context_)) {
    proto::AgentMessage message;
    message.mutable_registration()->set_host(host);
    message.mutable_registration()->set_agent_id(std::to_string(reinterpret_cast<long>(this)));
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

  /// Why the coordinator has closed the stream.
  grpc::Status is_refused() {
    proto::AgentCommand command;
    while (stream_->Read(&command)) {
    }
    finished_ = true;
    return stream_->Finish();
  }

  void tells_exit(Rank rank, int signal) {
    proto::AgentMessage message;
    message.set_generation(1);
    message.mutable_exited()->set_rank(rank);
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
  std::unique_ptr<CoordinatorClient> worker(Rank rank, Generation generation = 1) {
    return connect_to_coordinator(
        {.address = coordinator.address(), .rank = rank, .generation = generation});
  }

  void begin_generation() {
    agent = std::make_unique<VoiceOfAgent>(coordinator.address(), "a");
    EXPECT_TRUE(agent->hears().has_registered());
    EXPECT_EQ(agent->hears().start().slots_size(), 2);
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
  const proto::AgentCommand command = a.hears();
  EXPECT_EQ(command.generation(), 1);
  ASSERT_EQ(command.start().slots_size(), 2);
  EXPECT_EQ(command.start().slots(1).rank(), 1);
  EXPECT_EQ(command.start().slots(1).local_rank(), 1);
}

TEST_F(Service, RefusesAHostThatIsNotInTheList) {
  const grpc::Status status = VoiceOfAgent(coordinator.address(), "c").is_refused();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("host c"), HasSubstr("--hosts")));
}

TEST_F(Service, RefusesAnotherVersionAndNamesBoth) {
  const grpc::Status status = VoiceOfAgent(coordinator.address(), "a", "0.0.1").is_refused();
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("0.0.1"), HasSubstr(version())));
}

TEST_F(Service, RefusesASecondAgentOfAHost) {
  begin_generation();
  EXPECT_THAT(VoiceOfAgent(coordinator.address(), "a").is_refused().error_message(),
              HasSubstr("host a has an agent already"));
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

TEST_F(Service, RefusesTheJoinOfAnUnknownRank) {
  begin_generation();
  EXPECT_THAT(message_of<CommError>([&] { worker(7)->join(1s); }), HasSubstr("no rank 7"));
}

TEST_F(Service, RefusesEveryRequestOfAnotherGeneration) {
  join_both();
  for (const Generation generation : {2, 99}) {
    const auto stranger = worker(0, generation);
    const auto expect_rejected = [&](const auto& request) {
      EXPECT_THAT(message_of<CommError>(request),
                  HasSubstr("generation " + std::to_string(generation) +
                            " is not the current one, which is 1"));
    };
    expect_rejected([&] { stranger->join(1s); });
    expect_rejected([&] { stranger->set("key", {'v'}); });
    expect_rejected([&] { stranger->get("key", 1s); });
    EXPECT_TRUE(stranger->superseded());
    stranger->finish(CoordinatorClient::Outcome::kFailed, "not mine to tell");
  }
  EXPECT_THAT(message_of<CommError>([&] { first->get("key", 10ms); }), HasSubstr("'key'"));
  EXPECT_EQ(coordinator.status().state(), "training");
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
  const auto stub = proto::CoordinatorService::NewStub(make_channel(coordinator.address()));
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    proto::StopRequest request;
    proto::StopReply reply;
    request.set_reason("a person, " + std::string(200, 'x'));
    ASSERT_TRUE(stub->Stop(&context, request, &reply).ok());
  }
  wait_until([&] { return first->stop_requested() && second->stop_requested(); });
  for (CoordinatorClient* each : {first.get(), second.get()}) {
    each->finish(CoordinatorClient::Outcome::kStopped, "");
  }
  agent->tells_exit(0, 0);
  agent->tells_exit(1, 0);
  EXPECT_EQ(coordinator.verdict().message, "job stopped by a person, " + std::string(200, 'x'));
}

TEST_F(Service, FailsTheJobOfASilentWorker) {
  RendezvousConfig config = testing::impatient();
  config.limits.silence = 1500ms;
  RunningCoordinator other({{.name = "a", .slots = 1}}, config);
  VoiceOfAgent voice(other.address(), "a");
  auto lonely = connect_to_coordinator({.address = other.address()});
  voice.hears();
  voice.hears();
  lonely->join(10s);
  EXPECT_THAT(other.status().state(), "training");
  lonely.reset();  // its heartbeats end, and so do those of its agent
  voice.hears();   // is told to end its workers
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
