// Who a coordinator over TLS lets in, and that each refusal is counted and audited.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <vector>

#include "agent/join.h"
#include "common/error.h"
#include "coordinator/access/gate.h"
#include "security/certificate.h"
#include "security/private_key.h"
#include "tests/coordinator/rpc/voice_of_agent.h"
#include "tests/coordinator/running_coordinator.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"
#include "worker/report/coordinator_client.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::kJob;
using testing::message_of;
using ::testing::Not;
using testing::VoiceOfAgent;
using testing::wait_until;
using Stub = proto::CoordinatorService::Stub;

class ServiceOverTls : public ::testing::Test {
 protected:
  JoinString new_join_string() {
    return parse_join_string(gate.make_join_string(coordinator.address()), "the gate");
  }
  JoinString join_string_for(const std::string& host) {
    return parse_join_string(gate.create_token({}, {.hosts = {host}}, coordinator.address()).text,
                             "the gate");
  }
  /// An agent's folder is the name of its machine.
  JoinedCluster joins(const JoinString& join, const std::string& host, const std::string& machine) {
    return join_cluster(join, host, folder / machine, 60s);
  }
  /// What the agent is told when its token is refused.
  std::string is_refused(const JoinString& join, const std::string& host,
                         const std::string& machine) {
    return message_of<InputError>([&] { joins(join, host, machine); });
  }

  Credential admin() { return read_credential(folder / "state" / "security" / "admin.pem"); }

  template <typename Request, typename Reply>
  grpc::Status calls(grpc::Status (Stub::*rpc)(grpc::ClientContext*, const Request&, Reply*),
                     const Credential& credential, Request request = {},
                     const std::string& reader = {}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 60s);
    if (!reader.empty()) context.AddMetadata("authorization", "Bearer " + reader);
    if constexpr (requires { request.set_job_id(kJob); }) request.set_job_id(kJob);
    Reply reply;
    const auto stub =
        proto::CoordinatorService::NewStub(make_channel(coordinator.address(), credential));
    return (*stub.*rpc)(&context, request, &reply);
  }

  /// The coordinator has counted this refusal, and its audit log has it.
  void expect_noted(const std::string& reason, int count = 1) {
    EXPECT_THAT(gate.metrics_text(), HasSubstr("pfc_coordinator_refusals_total{reason=\"" + reason +
                                               "\"} " + std::to_string(count) + "\n"));
    wait_until([&] { return audit().find("\"result\":\"" + reason + "\"") != std::string::npos; });
  }
  std::string audit() const {
    std::ifstream file(folder / "state" / "audit.jsonl");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryFolder folder;
  std::atomic<std::int64_t> now{1'800'000'000};
  Gate gate{{.state_dir = folder / "state", .clock = [this] { return now.load(); }}};
  testing::RunningCoordinator coordinator{
      {{.name = "a", .slots = 1}, {.name = "b", .slots = 1}}, testing::impatient(), 0, kJob, &gate};
  Credential stranger{.authority = gate.server().authority};
};

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

TEST_F(ServiceOverTls, RefusesPlaintextAndTellsItApart) {
  EXPECT_EQ(calls(&Stub::Status, Credential()).error_code(), grpc::StatusCode::UNAVAILABLE);
  wait_until([&] { return audit().find("plaintext") != std::string::npos; });
  EXPECT_THAT(gate.metrics_text(), HasSubstr("{reason=\"plaintext\"}"));
}

/// A stranger begins as many handshakes as it may, and ends none.
TEST_F(ServiceOverTls, ServesOthersAfterHandshakesThatNobodyEnds) {
  Gate another({.state_dir = folder / "another"});
  testing::RunningCoordinator busy({{.name = "a", .slots = 1}}, testing::impatient(), 0, kJob,
                                   &another, {.all = 2, .of_address = 2, .patience = 200ms});
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

TEST_F(ServiceOverTls, LetsAnAgentWithATokenRegisterItsHost) {
  const JoinedCluster joined = joins(new_join_string(), "a", "machine");
  EXPECT_EQ(joined.host, "a");
  VoiceOfAgent agent(coordinator.address(), "a", "first", version(), joined.credential);
  EXPECT_EQ(agent.hears().registered().host(), "a");
  wait_until([&] { return audit().find("\"what\":\"register\"") != std::string::npos; });
  EXPECT_THAT(audit(), AllOf(HasSubstr("\"what\":\"create_token\""),
                             HasSubstr("\"what\":\"exchange_token\",\"result\":\"ok\"")));
}

TEST_F(ServiceOverTls, RefusesAWrongToken) {
  JoinString join = new_join_string();
  join.token = std::string(32, '0');
  EXPECT_THAT(is_refused(join, "a", "machine"), HasSubstr("refuses this host: the token is not"));
  expect_noted("wrong_token");
}

TEST_F(ServiceOverTls, RefusesAnExpiredToken) {
  const JoinString join = new_join_string();
  now += 3'600;
  EXPECT_THAT(is_refused(join, "a", "machine"), HasSubstr("has expired; pfcctl token create"));
  expect_noted("expired_token");
}

TEST_F(ServiceOverTls, RefusesARevokedToken) {
  const JoinString join = new_join_string();
  proto::RevokeTokenRequest request;
  request.set_id(gate.tokens().back().id);
  EXPECT_TRUE(calls(&Stub::RevokeToken, admin(), request).ok());
  EXPECT_THAT(is_refused(join, "a", "machine"), HasSubstr("was revoked"));
  expect_noted("revoked_token");
}

TEST_F(ServiceOverTls, RefusesATokenThatItsHostHasUsed) {
  const JoinString join = new_join_string();
  joins(join, "a", "machine");
  EXPECT_THAT(is_refused(join, "a", "thief"), HasSubstr("has used token"));
  expect_noted("replayed_token");
  joins(join, "b", "another machine");
}

TEST_F(ServiceOverTls, RefusesATokenOfAnotherHostAndAHostThatIsNotInTheList) {
  EXPECT_THAT(is_refused(join_string_for("b"), "a", "machine"), HasSubstr("is not for host a"));
  expect_noted("wrong_host");
  EXPECT_THAT(is_refused(new_join_string(), "c", "machine"),
              HasSubstr("host c (127.0.0.1) is not in the coordinator's --hosts"));
  expect_noted("unknown_host");
}

TEST_F(ServiceOverTls, RefusesEveryTokenForTheHostWhoseAgentTheCoordinatorStarts) {
  const Credential own = gate.credential_for_local_agent("a");
  EXPECT_THAT(is_refused(new_join_string(), "a", "machine"),
              HasSubstr("host a's agent is started by the coordinator itself"));
  EXPECT_THAT(is_refused(join_string_for("a"), "a", "machine"), HasSubstr("by the coordinator"));
  expect_noted("own_host", 2);
  VoiceOfAgent agent(coordinator.address(), "a", "first", version(), own);
  EXPECT_EQ(agent.hears().registered().host(), "a");
}

TEST_F(ServiceOverTls, GivesAnAgentThatIsStartedAgainItsCertificateWithoutANewToken) {
  const JoinString join = new_join_string();
  joins(join, "a", "machine");
  now += 1'000'000;
  const JoinedCluster again = joins(join, "a", "machine");
  VoiceOfAgent agent(coordinator.address(), "a", "first", version(), again.credential);
  EXPECT_EQ(agent.hears().registered().host(), "a");
}

TEST_F(ServiceOverTls, ReplacesTheCertificateOfAHostByANewToken) {
  const JoinedCluster old = joins(new_join_string(), "a", "machine");
  joins(join_string_for("a"), "a", "the machine without its files");
  VoiceOfAgent agent(coordinator.address(), "a", "first", version(), old.credential);
  EXPECT_THAT(agent.is_refused().error_message(), HasSubstr("revoked, or replaced"));
  expect_noted("revoked_certificate");
}

TEST_F(ServiceOverTls, ClosesTheStreamOfAHostWhoseCertificateIsReplaced) {
  const JoinedCluster old = joins(new_join_string(), "a", "machine");
  VoiceOfAgent agent(coordinator.address(), "a", "first", version(), old.credential);
  EXPECT_TRUE(agent.hears().has_registered());
  const JoinedCluster renewed = joins(join_string_for("a"), "a", "another machine");
  EXPECT_THAT(agent.is_refused().error_message(), HasSubstr("revoked, or replaced"));
  VoiceOfAgent later(coordinator.address(), "a", "second", version(), renewed.credential);
  EXPECT_TRUE(later.hears().has_registered());
  joins(join_string_for("a"), "a", "another machine");  // with the same key
  const Credential b = joins(new_join_string(), "b", "b").credential;
  VoiceOfAgent of_b(coordinator.address(), "b", "id-b", version(), b);
  EXPECT_EQ(later.is_told_workers().slots_size(), 1) << "its stream has ended";
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
                  .ok());  // it follows the stream's beginning
  gate.revoke_host({}, "a");
  proto::AgentMessage message;
  message.mutable_registration()->set_host("a");
  message.mutable_registration()->set_agent_id("first");
  message.mutable_registration()->set_version(version());
  stream->Write(message);
  proto::AgentCommand command;
  EXPECT_FALSE(stream->Read(&command));
  EXPECT_THAT(stream->Finish().error_message(), HasSubstr("revoked, or replaced"));
}

TEST_F(ServiceOverTls, RefusesTheCertificateOfAnotherHost) {
  const JoinedCluster b = joins(new_join_string(), "b", "machine");
  VoiceOfAgent agent(coordinator.address(), "a", "first", version(), b.credential);
  const grpc::Status status = agent.is_refused();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(status.error_message(),
            "the certificate is of host b, and the agent says that it is on a");
  expect_noted("wrong_host");
}

TEST_F(ServiceOverTls, RefusesAnAgentWhoseWorkersCertificateRequestIsNone) {
  const JoinString join = new_join_string();
  const Credential a = joins(join, "a", "a").credential, b = joins(join, "b", "b").credential;
  VoiceOfAgent good_b(coordinator.address(), "b", "id-b", version(), b);
  EXPECT_TRUE(good_b.hears().has_registered());
  VoiceOfAgent bad(coordinator.address(), "a", "bad", version(), a, "junk");
  const grpc::Status status = bad.is_refused();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "of the workers of host a: the certificate request is not one in PEM");
  expect_noted("bad_request");
  // Both hosts are told to start their workers, over the stream of the good one.
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

TEST_F(ServiceOverTls, SendsNoTokenToACoordinatorWithAnotherFingerprint) {
  JoinString join = new_join_string();
  join.fingerprint = std::string(64, '0');
  EXPECT_THAT(is_refused(join, "a", "machine"), HasSubstr("shows another certificate"));
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

TEST_F(ServiceOverTls, LetsReadersSeeTheStatusAlone) {
  const std::string reader =
      gate.create_token({}, {.kind = Token::Kind::kRead}, coordinator.address()).text.substr(0, 32);
  EXPECT_TRUE(calls(&Stub::Status, stranger, proto::StatusRequest(), reader).ok());
  EXPECT_EQ(calls(&Stub::Stop, stranger, proto::StopRequest(), reader).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  expect_noted("wrong_role");
  EXPECT_FALSE(calls(&Stub::Status, stranger, proto::StatusRequest(), std::string(32, '1')).ok());
  expect_noted("wrong_token");
}

TEST_F(ServiceOverTls, LetsAnAdminStopTheJobAndNotesIt) {
  proto::StopRequest request;
  request.set_job(kJob);
  EXPECT_TRUE(calls(&Stub::Stop, admin(), request).ok());
  EXPECT_EQ(coordinator.verdict().kind, Verdict::Kind::kStopped);
  wait_until([&] { return audit().find("\"what\":\"stop\"") != std::string::npos; });
  EXPECT_THAT(audit(), HasSubstr("\"role\":\"admin\""));
}

TEST_F(ServiceOverTls, LetsOnlyAnAdminBreakThingsAndNotesIt) {
  proto::InjectFaultRequest request;
  request.set_job_id(kJob);
  request.set_kind(proto::FAULT_PARTITION);
  request.set_host("a");
  EXPECT_EQ(calls(&Stub::InjectFault, stranger, request).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  const grpc::Status status = calls(&Stub::InjectFault, admin(), request);
  EXPECT_EQ(status.error_message(), "host a has no agent that is connected");
  wait_until([&] { return audit().find("\"what\":\"chaos\"") != std::string::npos; });
  EXPECT_THAT(audit(), HasSubstr("FAULT_PARTITION was not done: host a has no agent"));
}

TEST_F(ServiceOverTls, MakesTokensForAdminsAndShowsNoSecretOfThem) {
  proto::CreateTokenRequest request;
  request.add_hosts("b");
  EXPECT_TRUE(calls(&Stub::CreateToken, admin(), request).ok());
  EXPECT_EQ(calls(&Stub::CreateToken, stranger, request).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  request.add_hosts("elsewhere");
  EXPECT_THAT(calls(&Stub::CreateToken, admin(), request).error_message(),
              HasSubstr("host elsewhere is not in"));
  EXPECT_EQ(gate.tokens().back().hosts, std::vector<std::string>{"b"});
  EXPECT_EQ(gate.tokens().back().expires, now + 3'600);
}

/// Two agents with one worker each, whose certificates come with what is to run.
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

  /// How a stream of host a's worker ends whose messages are of these ranks.
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

TEST_F(WorkersOverTls, JoinByTheCertificateThatTheirAgentGets) {
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
  EXPECT_THAT(calls(&Stub::Join, other).error_message(), HasSubstr("of job fedcba9876543210"));
  expect_noted("wrong_job");
}

TEST_F(WorkersOverTls, MayNotTakeTheSlotOfAnotherHost) {
  EXPECT_THAT(message_of<CommError>([&] { client("id-b", of_a)->join(1s); }),
              HasSubstr("the certificate is of host a"));
  expect_noted("wrong_host");
}

TEST_F(WorkersOverTls, MayNotSpeakForARankOfAnotherHost) {
  const auto first = client("id-a", of_a), second = client("id-b", of_b);
  auto joining = std::async(std::launch::async, [&] { return first->join(20s); });
  second->join(20s);
  joining.get();
  EXPECT_THAT(attaches({1}).error_message(), HasSubstr("the certificate is of host a"));
  expect_noted("wrong_host");
}

TEST_F(WorkersOverTls, SpeakForOneRankInOneStream) {
  const auto first = client("id-a", of_a), second = client("id-b", of_b);
  auto joining = std::async(std::launch::async, [&] { return first->join(20s); });
  second->join(20s);
  joining.get();
  const grpc::Status status = attaches({0, 7});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "the stream is of rank 0, and its message of rank 7");
}

TEST_F(WorkersOverTls, LoseTheirCertificateWithTheirAgent) {
  gate.revoke_host({}, "a");
  EXPECT_THAT(calls(&Stub::Join, of_a).error_message(), HasSubstr("revoked"));
  expect_noted("revoked_certificate");
  EXPECT_THAT(audit(), ContainsRegex("revoked_certificate.*\"role\":\"worker\",\"host\":\"a\""));
}

}  // namespace
}  // namespace pfc
