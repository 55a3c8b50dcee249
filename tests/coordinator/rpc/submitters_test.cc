// Tests what users with the role submitter may do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/coordinator/rpc/service_over_tls.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using testing::ServiceOverTls;
using testing::wait_until;
using Stub = proto::CoordinatorService::Stub;

/// A service, an admin, and two submitters. No agent registers, so all jobs stay in the queue.
class Submitters : public ServiceOverTls {
 protected:
  struct Person {
    std::string id, secret;  ///< id and secret of a token
  };
  Person new_submitter() {
    const auto made = gate.create_token({}, {.role = Role::kSubmitter}, service.address());
    return {.id = made.id, .secret = parse_join_string(made.text, "the gate").token};
  }

  template <typename Request, typename Reply>
  grpc::Status asks(grpc::Status (Stub::*rpc)(grpc::ClientContext*, const Request&, Reply*),
                    const std::string& token, const Request& request, Reply& reply) {
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    Stub stub(make_channel(service.address(), token.empty() ? admin() : stranger));
    return (stub.*rpc)(&context, request, &reply);
  }

  /// Returns the id of the new job.
  std::string submits(const std::string& token, const std::string& name = "") {
    proto::SubmitRequest request;
    proto::SubmitReply reply;
    request.set_job_json(R"({"network":"r18","rec":"/data","output":"/out"})");
    request.set_file("job.json");
    request.set_name(name);
    const grpc::Status status = asks(&Stub::Submit, token, request, reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply.job_id();
  }
  grpc::Status stops(const std::string& token, const std::string& job) {
    proto::StopRequest request;
    proto::StopReply reply;
    request.set_job(job);
    return asks(&Stub::Stop, token, request, reply);
  }
  grpc::Status reads_log(const std::string& token, const std::string& job) {
    proto::LogsRequest request;
    proto::LogsReply reply;
    request.set_job(job);
    return asks(&Stub::Logs, token, request, reply);
  }
  proto::QueueReply queue(const std::string& token) {
    proto::QueueReply reply;
    EXPECT_TRUE(asks(&Stub::Queue, token, proto::QueueRequest(), reply).ok());
    return reply;
  }
  static void expect_not_own(const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_THAT(status.error_message(), HasSubstr("submitted with another credential; name one"));
  }

  testing::RunningCoordinator service{
      {{.name = "c", .slots = 1}}, testing::impatient(), 0, "", &gate};
  const Person anna = new_submitter(), ben = new_submitter();
};

TEST_F(Submitters, SeeTheWholeQueueAndWhoSubmittedEachJob) {
  submits("");
  submits(anna.secret, "night run");
  const proto::QueueReply jobs = queue(ben.secret);
  ASSERT_EQ(jobs.jobs_size(), 2);
  EXPECT_EQ(jobs.jobs(0).submitter(), "") << "submitted by an admin";
  EXPECT_EQ(jobs.jobs(0).name(), "job.json");
  EXPECT_EQ(jobs.jobs(1).submitter(), anna.id);
  EXPECT_EQ(jobs.jobs(1).name(), "night run");
  EXPECT_EQ(jobs.jobs(1).output(), "/out");
}

TEST_F(Submitters, StopAndReadOnlyTheirOwnJobs) {
  const std::string of_admin = submits(""), of_anna = submits(anna.secret);
  for (const std::string& job : {of_admin, of_anna}) {
    expect_not_own(stops(ben.secret, job));
    expect_not_own(reads_log(ben.secret, job));
  }
  expect_noted("not_own_job", 4);
  EXPECT_TRUE(reads_log(anna.secret, of_anna).ok());
  EXPECT_TRUE(stops(anna.secret, of_anna.substr(0, 8)).ok());
  EXPECT_TRUE(stops("", of_admin).ok());
  EXPECT_EQ(queue(anna.secret).jobs(0).submitter(), anna.id) << "expected for an ended job too";
  expect_not_own(reads_log(ben.secret, of_anna));
  wait_until([&] { return audit().find("\"what\":\"submit\",\"result\":\"ok\"") != audit().npos; });
  EXPECT_THAT(audit(), HasSubstr("\"role\":\"submitter\",\"credential\":\"" + anna.id));
}

TEST_F(Submitters, GetAnErrorForAnUnknownJob) {
  EXPECT_THAT(stops(anna.secret, "x").error_message(), HasSubstr("no job has an id that begins"));
}

TEST_F(Submitters, MayNotDrainHostsOrCreateTokens) {
  proto::DrainReply drained;
  proto::CreateTokenReply created;
  for (const grpc::Status& status :
       {asks(&Stub::Drain, anna.secret, proto::DrainRequest(), drained),
        asks(&Stub::CreateToken, anna.secret, proto::CreateTokenRequest(), created)}) {
    EXPECT_THAT(status.error_message(), HasSubstr("role submitter does not allow this call; docs"));
  }
  EXPECT_EQ(gate.admit_page("Bearer " + anna.secret, "peer")->identity.role, Role::kReader);
}

TEST_F(Submitters, GetTheirTokensFromAdmins) {
  proto::CreateTokenRequest request;
  proto::CreateTokenReply reply;
  for (const char* role : {"admin", "worker", "king"}) {
    request.set_role(role);
    EXPECT_THAT(asks(&Stub::CreateToken, "", request, reply).error_message(),
                HasSubstr("expected agent, reader or submitter"));
  }
  request.set_role("submitter");
  ASSERT_TRUE(asks(&Stub::CreateToken, "", request, reply).ok());
  submits(parse_join_string(reply.text(), "the reply").token);
  EXPECT_EQ(gate.tokens().back().expires, 0) << "expected a token that does not expire";
}

}  // namespace
}  // namespace pfc
