#include "coordinator/access/roles.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "proto/coordinator.pb.h"

namespace pfc {
namespace {

/// Returns the requests that a role may make.
std::set<std::string> requests_of(Role role) {
  const auto* const service =
      proto::StatusRequest::descriptor()->file()->FindServiceByName("CoordinatorService");
  std::set<std::string> requests;
  for (int i = 0; i < service->method_count(); ++i) {
    const std::string name = service->method(i)->input_type()->name();
    if (may_call(role, name)) requests.insert(name);
  }
  return requests;
}

using Names = std::set<std::string>;

TEST(Roles, AllowOnlyATokenExchangeWithoutACredential) {
  EXPECT_EQ(requests_of(Role::kNobody), Names{"ExchangeTokenRequest"});
  EXPECT_EQ(requests_of(Role::kServer), Names{});
}

TEST(Roles, LetReadersSeeTheStatus) {
  EXPECT_EQ(requests_of(Role::kReader),
            (Names{"CheckResultRequest", "ExchangeTokenRequest", "QueueRequest", "StatusRequest"}));
}

TEST(Roles, LetSubmittersAlsoSubmitStopAndReadLogs) {
  Names requests = requests_of(Role::kReader);
  requests.insert({"LogsRequest", "StopRequest", "SubmitRequest"});
  EXPECT_EQ(requests_of(Role::kSubmitter), requests);
}

TEST(Roles, LetAgentsAttachAndSeeTheStatus) {
  EXPECT_EQ(requests_of(Role::kAgent),
            (Names{"AgentMessage", "CheckResultRequest", "ExchangeTokenRequest", "QueueRequest",
                   "StatusRequest"}));
}

TEST(Roles, LetWorkersTakePartInTheirJob) {
  EXPECT_EQ(requests_of(Role::kWorker),
            (Names{"ExchangeTokenRequest", "FinishRequest", "GetValueRequest", "GetValuesRequest",
                   "JoinRequest", "ReportCheckRequest", "SendTraceRequest", "SetValueRequest",
                   "WorkerMessage"}));
}

TEST(Roles, AllowUnknownRequestsOnlyForAdmins) {
  EXPECT_TRUE(may_call(Role::kAdmin, "RequestOfTomorrow"));
  for (const Role role :
       {Role::kNobody, Role::kReader, Role::kSubmitter, Role::kWorker, Role::kAgent}) {
    EXPECT_FALSE(may_call(role, "RequestOfTomorrow"));
  }
}

}  // namespace
}  // namespace pfc
