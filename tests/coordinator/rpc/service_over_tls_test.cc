// Tests which callers a coordinator over TLS accepts. Each refusal is counted and audited.
#include "tests/coordinator/rpc/service_over_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <string>
#include <vector>

#include "security/private_key.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kJob;
using ::testing::Not;
using testing::ServiceOverTls;
using testing::VoiceOfAgent;
using testing::wait_until;
using Stub = proto::CoordinatorService::Stub;

TEST_F(ServiceOverTls, RefusesEveryCallWithoutACredential) {
  EXPECT_EQ(calls(&Stub::Status, stranger).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(calls(&Stub::Stop, stranger).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(calls(&Stub::Join, stranger).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(calls(&Stub::SetValue, stranger).error_message(), HasSubstr("needs a credential"));
  VoiceOfAgent agent(coordinator.address(), "a", "first", version(), stranger);
  EXPECT_EQ(agent.is_refused().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  expect_noted("no_credential", 5);
  EXPECT_THAT(audit(), AllOf(HasSubstr("\"what\":\"StopRequest\""),
                             HasSubstr("\"peer\":\"ipv4:127.0.0.1:")));
}

TEST_F(ServiceOverTls, RefusesPlaintextAndCountsItSeparately) {
  EXPECT_EQ(calls(&Stub::Status, Credential()).error_code(), grpc::StatusCode::UNAVAILABLE);
  wait_until([&] { return audit().find("plaintext") != std::string::npos; });
  EXPECT_THAT(gate.metrics_text(), HasSubstr("{reason=\"plaintext\"}"));
}

/// A stranger begins as many handshakes as it may, and finishes none.
TEST_F(ServiceOverTls, ServesOthersDespiteUnfinishedHandshakes) {
  Gate another({.state_dir = folder / "another"});
  testing::RunningCoordinator busy({{.name = "a", .slots = 1}}, testing::impatient(), 0, kJob,
                                   &another, {.all = 2, .of_address = 2, .patience = 1s});
  boost::asio::io_context loop;
  std::vector<boost::asio::ip::tcp::socket> halves;
  for (int i = 0; i < 4; ++i) {
    auto& half = halves.emplace_back(loop);
    half.connect(
        {boost::asio::ip::address_v4::loopback(), static_cast<unsigned short>(busy.port())});
    boost::asio::write(half, boost::asio::buffer("\x16\x03\x01", 3));
  }
  const Credential own = read_credential(folder / "another" / "security" / "admin.pem");
  wait_until([&] {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    proto::StatusReply reply;
    const auto stub = proto::CoordinatorService::NewStub(make_channel(busy.address(), own));
    return stub->Status(&context, proto::StatusRequest(), &reply).ok();
  });
  wait_until([&] {
    return another.metrics_text().find("{reason=\"slow_handshake\"}") != std::string::npos;
  });
}

TEST_F(ServiceOverTls, RegistersNoAgentWhoseCertificateWasRevokedAfterItsStreamWasOpened) {
  const JoinedCluster a = joins(new_join_string(), "a", "machine");
  Stub stub(make_channel(coordinator.address(), a.credential));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 60s);
  const auto stream = stub.AttachAgent(&context);
  proto::StatusReply status;
  grpc::ClientContext status_context;
  EXPECT_TRUE(stub.Status(&status_context, proto::StatusRequest(), &status)
                  .ok());  // the stream, requested first, has started
  gate.revoke_host({}, "a");
  proto::AgentMessage message;
  message.mutable_registration()->set_host("a");
  message.mutable_registration()->set_agent_id("first");
  message.mutable_registration()->set_version(version());
  stream->Write(message);
  proto::AgentCommand command;
  EXPECT_FALSE(stream->Read(&command));
  EXPECT_THAT(stream->Finish().error_message(), HasSubstr("revoked or replaced"));
}

TEST_F(ServiceOverTls, RefusesTheCertificateOfAnotherHost) {
  const JoinedCluster b = joins(new_join_string(), "b", "machine");
  VoiceOfAgent agent(coordinator.address(), "a", "first", version(), b.credential);
  const grpc::Status status = agent.is_refused();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(status.error_message(),
            "the certificate is for host b, but the agent says that it is on a");
  expect_noted("wrong_host");
}

TEST_F(ServiceOverTls, RefusesAnAgentWithAnInvalidCertificateRequestForItsWorkers) {
  const JoinString join = new_join_string();
  const Credential a = joins(join, "a", "a").credential, b = joins(join, "b", "b").credential;
  VoiceOfAgent good_b(coordinator.address(), "b", "id-b", version(), b);
  EXPECT_TRUE(good_b.hears().has_registered());
  VoiceOfAgent bad(coordinator.address(), "a", "bad", version(), a, "junk");
  const grpc::Status status = bad.is_refused();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "for the workers of host a: the certificate request is not in PEM format");
  expect_noted("bad_request");
  // Once a valid agent of host a has registered, both agents are asked to start workers.
  VoiceOfAgent good(coordinator.address(), "a", "id-a", version(), a, make_request(*make_key()));
  EXPECT_THAT(good.is_told_workers().worker_certificate(), HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_EQ(good_b.is_told_workers().slots_size(), 1);
}

TEST_F(ServiceOverTls, RefusesTheCertificateOfAnotherAuthority) {
  TemporaryFolder elsewhere;
  const Authority other(elsewhere.path());
  Credential foreign = other.make_credential({.role = Role::kAdmin});
  foreign.authority = gate.server().authority;
  EXPECT_EQ(calls(&Stub::Stop, foreign).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(coordinator.status().state(), "waiting");
}

TEST_F(ServiceOverTls, ClosesTheStreamOfAHostWhoseCertificateIsRevoked) {
  const JoinedCluster a = joins(new_join_string(), "a", "machine");
  VoiceOfAgent agent(coordinator.address(), "a", "first", version(), a.credential);
  EXPECT_TRUE(agent.hears().has_registered());
  proto::RevokeTokenRequest request;
  request.set_host("a");
  EXPECT_TRUE(calls(&Stub::RevokeToken, admin(), request).ok());
  EXPECT_THAT(agent.is_refused().error_message(), HasSubstr("certificate of host a was revoked"));
  VoiceOfAgent again(coordinator.address(), "a", "first", version(), a.credential);
  EXPECT_EQ(again.is_refused().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(ServiceOverTls, LetsReadersSeeOnlyTheStatus) {
  const std::string reader =
      gate.create_token({}, {.role = Role::kReader}, coordinator.address()).text.substr(0, 32);
  EXPECT_TRUE(calls(&Stub::Status, stranger, proto::StatusRequest(), reader).ok());
  EXPECT_EQ(calls(&Stub::Stop, stranger, proto::StopRequest(), reader).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  expect_noted("wrong_role");
  EXPECT_FALSE(calls(&Stub::Status, stranger, proto::StatusRequest(), std::string(32, '1')).ok());
  expect_noted("wrong_token");
}

TEST_F(ServiceOverTls, LetsAnAdminStopTheJobAndAuditsTheStop) {
  proto::StopRequest request;
  request.set_job(kJob);
  EXPECT_TRUE(calls(&Stub::Stop, admin(), request).ok());
  EXPECT_EQ(coordinator.verdict().kind, Verdict::Kind::kStopped);
  wait_until([&] { return audit().find("\"what\":\"stop\"") != std::string::npos; });
  EXPECT_THAT(audit(), AllOf(HasSubstr("\"role\":\"admin\""), HasSubstr("\"result\":\"ok\""),
                             HasSubstr(std::string("job ") + kJob)));
}

TEST_F(ServiceOverTls, AuditsFailedRequestsAsNotDone) {
  proto::StopRequest stop;
  stop.set_job("fedcba9876543210");
  EXPECT_FALSE(calls(&Stub::Stop, admin(), stop).ok());
  proto::DrainRequest drain;
  drain.set_job_id(kJob);
  drain.set_host("nowhere");
  EXPECT_FALSE(calls(&Stub::Drain, admin(), drain).ok());
  proto::SubmitRequest submit;
  submit.set_file("job.json");
  EXPECT_FALSE(calls(&Stub::Submit, admin(), submit).ok());
  proto::StartTraceRequest trace;
  EXPECT_FALSE(calls(&Stub::StartTrace, admin(), trace).ok());
  wait_until([&] { return audit().find("\"what\":\"trace\"") != std::string::npos; });
  EXPECT_THAT(audit(),
              AllOf(HasSubstr("stop of job fedcba9876543210: not done: "),
                    HasSubstr("drain of host nowhere: not done: unknown host"),
                    HasSubstr("submission of job.json: not done: "), Not(HasSubstr("\"ok\""))));
}

TEST_F(ServiceOverTls, LetsOnlyAnAdminInjectFaultsAndAuditsThem) {
  proto::InjectFaultRequest request;
  request.set_job_id(kJob);
  request.set_kind(proto::FAULT_PARTITION);
  request.set_host("a");
  EXPECT_EQ(calls(&Stub::InjectFault, stranger, request).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  const grpc::Status status = calls(&Stub::InjectFault, admin(), request);
  EXPECT_EQ(status.error_message(), "host a has no connected agent");
  wait_until([&] { return audit().find("\"what\":\"chaos\"") != std::string::npos; });
  EXPECT_THAT(audit(), HasSubstr("FAULT_PARTITION: not done: host a has no connected agent"));
}

}  // namespace
}  // namespace pfc
