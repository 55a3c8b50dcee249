// Tests a coordinator that runs as a service, over real gRPC, with one host and a fake agent.
#include <gmock/gmock.h>

#include "common/clock.h"
#include "common/random_id.h"
#include "tests/coordinator/rpc/service_fixture.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using testing::RunningCoordinator;
using testing::VoiceOfAgent;

class ServiceOfJobs : public ::testing::Test {
 protected:
  template <typename Request, typename Reply>
  grpc::Status call(grpc::Status (proto::CoordinatorService::Stub::*rpc)(grpc::ClientContext*,
                                                                         const Request&, Reply*),
                    const Request& request, Reply& reply) {
    grpc::ClientContext context;
    return (*stub.*rpc)(&context, request, &reply);
  }

  grpc::Status submits(const std::string& json, proto::SubmitReply& reply) {
    proto::SubmitRequest request;
    request.set_job_json(json);
    request.set_file("job.json");
    return call(&proto::CoordinatorService::Stub::Submit, request, reply);
  }

  std::string submits() {
    proto::SubmitReply reply;
    const grpc::Status status = submits(R"({"network":"r18","rec":"/data"})", reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply.job_id();
  }

  proto::QueueReply queue() {
    proto::QueueReply reply;
    call(&proto::CoordinatorService::Stub::Queue, proto::QueueRequest(), reply);
    return reply;
  }

  grpc::Status stops(const std::string& job) {
    proto::StopRequest request;
    proto::StopReply reply;
    request.set_job(job);
    request.set_urgent(true);
    return call(&proto::CoordinatorService::Stub::Stop, request, reply);
  }

  grpc::Status reads_log(const std::string& job) {
    proto::LogsRequest request;
    proto::LogsReply reply;
    request.set_job(job);
    return call(&proto::CoordinatorService::Stub::Logs, request, reply);
  }

  grpc::Status drains(const std::string& job, const std::string& host) {
    proto::DrainRequest request;
    proto::DrainReply reply;
    request.set_job_id(job);
    request.set_host(host);
    request.mutable_leaving()->set_reason("a test");
    return call(&proto::CoordinatorService::Stub::Drain, request, reply);
  }

  /// Waits for a job other than `last`, and returns its id.
  static std::string is_told_a_job(VoiceOfAgent& agent, const std::string& last = "") {
    for (int heard = 0; heard < 20; ++heard) {
      const proto::AgentCommand command = agent.hears();
      if (command.desired().slots_size() > 0 && command.job_id() != last) return command.job_id();
    }
    return "none";
  }

  RunningCoordinator coordinator{{{.name = "a", .slots = 1}}, testing::impatient(), 0, ""};
  std::unique_ptr<proto::CoordinatorService::Stub> stub =
      proto::CoordinatorService::NewStub(make_channel(coordinator.address()));
};

TEST_F(ServiceOfJobs, SendsAnAgentOneJobAfterAnother) {
  VoiceOfAgent agent(coordinator.address(), "a");
  const std::string first = submits(), second = submits();
  EXPECT_EQ(is_told_a_job(agent), first);
  EXPECT_TRUE(stops(first).ok());
  agent.tells_exit(0, SIGTERM, first);
  EXPECT_EQ(is_told_a_job(agent, first), second);
  EXPECT_EQ(queue().jobs(0).state(), "stopped");
  EXPECT_EQ(queue().jobs(1).state(), "running");
}

TEST_F(ServiceOfJobs, StartsTheNextJobWhenAllHostsHaveRegistered) {
  submits();
  EXPECT_EQ(queue().jobs(0).state(), "waiting");
  EXPECT_THAT(queue().reason(), HasSubstr("waiting for a to register"));
  VoiceOfAgent agent(coordinator.address(), "a");
  is_told_a_job(agent);
  EXPECT_EQ(queue().jobs(0).state(), "running");
}

TEST_F(ServiceOfJobs, BeginsNoJobOnADrainedHostUntilItHasAnotherAgent) {
  VoiceOfAgent agent(coordinator.address(), "a");
  const std::string first = submits(), second = submits();
  EXPECT_EQ(is_told_a_job(agent), first);
  EXPECT_TRUE(stops(first).ok());
  EXPECT_TRUE(drains(first, "a").ok());  // during a stop
  agent.tells_exit(0, SIGTERM, first);
  testing::wait_until([&] { return queue().jobs(0).state() == "stopped"; });
  EXPECT_EQ(queue().jobs(1).state(), "waiting");
  EXPECT_THAT(queue().reason(),
              HasSubstr("waiting for host a, which was drained: start its pfc-age"));
  VoiceOfAgent another(coordinator.address(), "a", "second");
  EXPECT_EQ(is_told_a_job(another, first), second);
}

TEST_F(ServiceOfJobs, DrainsAHostBetweenTwoJobs) {
  VoiceOfAgent agent(coordinator.address(), "a");
  EXPECT_TRUE(agent.hears().has_registered());
  EXPECT_FALSE(drains("0123456789abcdef", "a").ok());  // of another coordinator
  EXPECT_FALSE(drains("", "b").ok());
  EXPECT_TRUE(drains("", "a").ok());
  const std::string job = submits();
  testing::wait_until(
      [&] { return queue().reason().find("host a, which was drained") != std::string::npos; });
  VoiceOfAgent another(coordinator.address(), "a", "second");
  EXPECT_EQ(is_told_a_job(another), job);
  EXPECT_FALSE(drains("", "a").ok());  // the caller must know the job
}

TEST_F(ServiceOfJobs, WaitsForAnAgentWhoseConnectionIsBroken) {
  std::string first;
  {
    VoiceOfAgent agent(coordinator.address(), "a");
    first = submits();
    is_told_a_job(agent);
    EXPECT_TRUE(stops(first).ok());
    agent.tells_exit(0, SIGTERM, first);
    testing::wait_until([&] { return queue().jobs(0).state() == "stopped"; });
    auto reading = std::async(std::launch::async, [&] { return reads_log(first); });
    while (!agent.hears().has_read_log()) {
    }
    agent.goes();
    reading.get();  // returns when the coordinator has noticed the broken connection
  }
  const std::string second = submits();
  EXPECT_EQ(queue().jobs(1).state(), "waiting");
  EXPECT_THAT(queue().reason(), HasSubstr("waiting for a to register"));
  VoiceOfAgent again(coordinator.address(), "a");
  EXPECT_EQ(is_told_a_job(again, first), second);
}

TEST_F(ServiceOfJobs, RefusesWorkersWhileNoJobRuns) {
  grpc::ClientContext context;
  proto::SetValueRequest request;
  proto::SetValueReply reply;
  const grpc::Status status = stub->SetValue(&context, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("this coordinator runs no job now"));
}

TEST_F(ServiceOfJobs, RefusesAndCountsAnInvalidJob) {
  proto::SubmitReply reply;
  for (const auto& [json, words] :
       {std::pair(R"({"netwrk":"r18"})", "job.json: unknown key \"netwrk\""),
        std::pair("[]", "job.json: expected a JSON object"),
        std::pair("{", "job.json:1:2: not valid JSON")}) {
    const grpc::Status status = submits(json, reply);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr(words));
  }
  EXPECT_EQ(queue().refused(), 3);
  EXPECT_EQ(queue().jobs_size(), 0);
}

TEST_F(ServiceOfJobs, RefusesAJobWhoseTextIsTooLong) {
  proto::SubmitReply reply;
  const grpc::Status status = submits(std::string((1 << 20) + 1, ' '), reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(queue().refused(), 1);
}

TEST(Metrics, AreWrittenToTheJournalAtMostOnceIn100Ms) {
  const TemporaryFolder folder;
  Journal journal({.file = folder / "journal", .tell = [](const std::string&) {}}, {});
  RunningCoordinator coordinator({{.name = "a", .slots = 1}}, testing::impatient(), 0, "");
  coordinator.on_loop([&](auto&, Coordinator& of) {
    of.takeover().keep(journal, {});
    for (bool is_over = false; !is_over;) {  // tries again if this thread was suspended too long
      const std::string first = of.metrics_text();
      const TimePoint shown = Clock::now();
      const std::uint64_t written = journal.file_bytes();
      static_cast<void>(of.jobs().add({.id = random_id(), .json = "{}"}));
      const std::string second = of.metrics_text();
      const std::uint64_t after = journal.file_bytes();
      if (Clock::now() - shown >= std::chrono::milliseconds{90}) continue;
      EXPECT_EQ(second, first);
      EXPECT_EQ(after, written);
      is_over = true;
    }
  });
}

TEST_F(ServiceOfJobs, RefusesAStopWithoutTheIdOfAJob) {
  VoiceOfAgent agent(coordinator.address(), "a");
  const std::string running = submits();
  is_told_a_job(agent);
  for (const std::string& name : {std::string(), std::string("x"), running + "0"}) {
    EXPECT_EQ(stops(name).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << name;
  }
  EXPECT_EQ(coordinator.status().state(), "starting");
  EXPECT_TRUE(stops(running.substr(0, 10)).ok());
}

TEST_F(ServiceOfJobs, ReturnsAnEmptyLogForAQueuedJob) { EXPECT_TRUE(reads_log(submits()).ok()); }

TEST_F(ServiceOfJobs, SaysThatAJobRemovedFromTheQueueHasNoLog) {
  const std::string job = submits();
  EXPECT_TRUE(stops(job).ok());
  EXPECT_THAT(reads_log(job).error_message(), HasSubstr("never ran; it has no log"));
}

TEST_F(ServiceOfJobs, ReturnsTheAgentsReplyToARequestForALog) {
  VoiceOfAgent agent(coordinator.address(), "a");
  const std::string job = submits();
  is_told_a_job(agent);
  const auto reads = [&](const std::string& text, const std::string& problem = {}) {
    auto reading = std::async(std::launch::async, [&] { return reads_log(job); });
    proto::AgentCommand command;
    while (!command.has_read_log()) command = agent.hears();
    agent.tells_log(command.read_log().request(), text, problem);
    return reading.get().error_message();
  };
  EXPECT_EQ(reads("a line"), "");
  EXPECT_EQ(reads("", "no such file"), "host a: no such file");
  EXPECT_EQ(reads(std::string((256 << 10) + 1, 'x')),
            "host a: its agent sent 262145 bytes of the log, expected at most 262144; read the "
            "file on that host");
}

TEST_F(ServiceOfJobs, RefusesALogRequestWhenItsAgentDisconnects) {
  std::string job;
  {
    VoiceOfAgent agent(coordinator.address(), "a");
    job = submits();
    is_told_a_job(agent);
    auto reading = std::async(std::launch::async, [&] { return reads_log(job); });
    while (!agent.hears().has_read_log()) {
    }
    agent.goes();
    const grpc::Status refused = reading.get();
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(refused.error_message(), HasSubstr("host a: its agent has disconnected"));
  }
  EXPECT_THAT(reads_log(job).error_message(), HasSubstr("has no connected agent"));
}

}  // namespace
}  // namespace pfc
