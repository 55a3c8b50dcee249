// Tests what workers may do with the certificates that their agents get for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "security/certificate.h"
#include "security/private_key.h"
#include "tests/coordinator/rpc/service_over_tls.h"
#include "worker/coordinator_link/coordinator_client.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::kJob;
using testing::message_of;
using testing::ServiceOverTls;
using testing::VoiceOfAgent;
using Stub = proto::CoordinatorService::Stub;

/// Two agents with one worker each. The workers' certificates come with the desired slots.
class WorkersOverTls : public ServiceOverTls {
 protected:
  Credential worker_of(VoiceOfAgent& agent) {
    const std::string certificate = agent.is_told_workers().worker_certificate();
    return {.authority = stranger.authority, .certificate = certificate, .key = to_pem(*key)};
  }
  std::unique_ptr<CoordinatorClient> client(const std::string& agent,
                                            const Credential& credential) {
    return connect_to_coordinator({.address = coordinator.address(),
                                   .credential = credential,
                                   .job_id = kJob,
                                   .agent_id = agent});
  }

  /// Returns the clients of both workers, after they have joined.
  std::array<std::unique_ptr<CoordinatorClient>, 2> both_join() {
    auto first = client("id-a", of_a), second = client("id-b", of_b);
    auto joining = std::async(std::launch::async, [&] { return first->join(20s); });
    second->join(20s);
    joining.get();
    return {std::move(first), std::move(second)};
  }

  /// Returns the status of a stream of host a's worker with messages of these ranks.
  grpc::Status attaches(const std::vector<Rank>& ranks) {
    Stub stub(make_channel(coordinator.address(), of_a));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 60s);
    const auto stream = stub.AttachWorker(&context);
    for (const Rank rank : ranks) {
      proto::WorkerMessage message;
      message.set_job_id(kJob);
      message.set_generation(1);
      message.set_rank(rank);
      stream->Write(message);
    }
    proto::WorkerCommand command;
    while (stream->Read(&command)) {
    }
    return stream->Finish();
  }

  KeyOwner key = make_key();
  JoinString join = new_join_string();
  Credential credential_a = joins(join, "a", "a").credential;
  Credential credential_b = joins(join, "b", "b").credential;
  VoiceOfAgent a{coordinator.address(), "a", "id-a", version(), credential_a, make_request(*key)};
  VoiceOfAgent b{coordinator.address(), "b", "id-b", version(), credential_b, make_request(*key)};
  Credential of_a = worker_of(a);
  Credential of_b = worker_of(b);
};

TEST_F(WorkersOverTls, JoinWithTheCertificateThatTheirAgentGets) {
  const auto first = client("id-a", of_a), second = client("id-b", of_b);
  auto joining = std::async(std::launch::async, [&] { return first->join(20s); });
  EXPECT_EQ(second->join(20s).membership.rank, 1);
  EXPECT_EQ(joining.get().membership.rank, 0);
  first->set("key", {'x'});
  EXPECT_EQ(second->get("key", 20s), std::vector<char>{'x'});
}

TEST_F(WorkersOverTls, MayNotStopTheJobOrSeeTheStatusOrMakeTokens) {
  EXPECT_EQ(calls(&Stub::Stop, of_a).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(calls(&Stub::Status, of_a).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(calls(&Stub::CreateToken, of_a).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(calls(&Stub::ListTokens, of_a).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  VoiceOfAgent agent(coordinator.address(), "a", "x", version(), of_a);
  EXPECT_EQ(agent.is_refused().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  expect_noted("wrong_role", 5);
}

TEST_F(WorkersOverTls, MayNotTakePartInAnotherJob) {
  const Caller agent{.identity = {.role = Role::kAgent, .host = "a"},
                     .serial = facts_of(credential_a.certificate)->serial};
  Credential other = of_a;
  other.certificate = gate.worker_certificate(agent, "fedcba9876543210", make_request(*key));
  EXPECT_THAT(
      calls(&Stub::SetValue, other).error_code(),
      ::testing::AnyOf(grpc::StatusCode::PERMISSION_DENIED, grpc::StatusCode::FAILED_PRECONDITION));
  EXPECT_THAT(calls(&Stub::Join, other).error_message(), HasSubstr("for job fedcba9876543210"));
  expect_noted("wrong_job");
}

TEST_F(WorkersOverTls, MayNotTakeTheSlotOfAnotherHost) {
  EXPECT_THAT(message_of<CommError>([&] { client("id-b", of_a)->join(1s); }),
              HasSubstr("the certificate is for host a"));
  expect_noted("wrong_host");
}

TEST_F(WorkersOverTls, MayNotReportForARankOfAnotherHost) {
  const auto workers = both_join();
  EXPECT_THAT(attaches({1}).error_message(), HasSubstr("the certificate is for host a"));
  expect_noted("wrong_host");
}

TEST_F(WorkersOverTls, MayReportForOnlyOneRankInAStream) {
  const auto workers = both_join();
  const grpc::Status status = attaches({0, 7});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "the stream is for rank 0, but its message is for rank 7");
}

TEST_F(WorkersOverTls, LoseTheirCertificateWithTheirAgent) {
  gate.revoke_host({}, "a");
  EXPECT_THAT(calls(&Stub::Join, of_a).error_message(), HasSubstr("revoked"));
  expect_noted("revoked_certificate");
  EXPECT_THAT(audit(), ContainsRegex("revoked_certificate.*\"role\":\"worker\",\"host\":\"a\""));
}

}  // namespace
}  // namespace pfc
