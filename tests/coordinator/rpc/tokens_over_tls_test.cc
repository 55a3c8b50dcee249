// Tests what tokens allow. Each refusal is counted and audited.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/coordinator/rpc/service_over_tls.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ServiceOverTls;
using testing::VoiceOfAgent;
using testing::wait_until;
using Stub = proto::CoordinatorService::Stub;

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
  EXPECT_THAT(is_refused(join, "a", "machine"),
              HasSubstr("refuses this host: the token does not belong"));
  expect_noted("wrong_token");
}

TEST_F(ServiceOverTls, RefusesAnExpiredToken) {
  const JoinString join = new_join_string();
  now += 3'600;
  EXPECT_THAT(is_refused(join, "a", "machine"),
              HasSubstr("has expired; create a new one with pfcctl token create"));
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
  EXPECT_THAT(is_refused(join, "a", "thief"), HasSubstr("has already used token"));
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
              HasSubstr("host a: the coordinator starts its agent itself"));
  EXPECT_THAT(is_refused(join_string_for("a"), "a", "machine"),
              HasSubstr("the coordinator starts its agent itself"));
  expect_noted("own_host", 2);
  VoiceOfAgent agent(coordinator.address(), "a", "first", version(), own);
  EXPECT_EQ(agent.hears().registered().host(), "a");
}

TEST_F(ServiceOverTls, GivesARestartedAgentItsCertificateWithoutANewToken) {
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
  EXPECT_THAT(agent.is_refused().error_message(), HasSubstr("revoked or replaced"));
  expect_noted("revoked_certificate");
}

TEST_F(ServiceOverTls, ClosesTheStreamOfAHostWhoseCertificateIsReplaced) {
  const JoinedCluster old = joins(new_join_string(), "a", "machine");
  VoiceOfAgent agent(coordinator.address(), "a", "first", version(), old.credential);
  EXPECT_TRUE(agent.hears().has_registered());
  const JoinedCluster renewed = joins(join_string_for("a"), "a", "another machine");
  EXPECT_THAT(agent.is_refused().error_message(), HasSubstr("revoked or replaced"));
  VoiceOfAgent later(coordinator.address(), "a", "second", version(), renewed.credential);
  EXPECT_TRUE(later.hears().has_registered());
  joins(join_string_for("a"), "a", "another machine");  // with the same key
  const Credential b = joins(new_join_string(), "b", "b").credential;
  VoiceOfAgent of_b(coordinator.address(), "b", "id-b", version(), b);
  EXPECT_EQ(later.is_told_workers().slots_size(), 1) << "the stream of host a has ended";
}

TEST_F(ServiceOverTls, SendsNoTokenToACoordinatorWithAnotherFingerprint) {
  JoinString join = new_join_string();
  join.fingerprint = std::string(64, '0');
  EXPECT_THAT(is_refused(join, "a", "machine"), HasSubstr("a certificate that does not match"));
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

}  // namespace
}  // namespace pfc
