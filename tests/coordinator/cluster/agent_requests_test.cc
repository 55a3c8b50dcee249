#include "coordinator/cluster/agent_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "proto/coordinator.pb.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AgentRequestsTest : public ::testing::Test {
 protected:
  std::int64_t asks(const std::string& host) {
    return requests.wait(
        host,
        [this](const std::variant<proto::LogChunk, Refusal>& result) {
          const auto* report = std::get_if<proto::LogChunk>(&result);
          answers.push_back(report == nullptr ? std::get<Refusal>(result).message : report->text());
        },
        now);
  }

  void tells(const std::string& host, std::int64_t request, const std::string& text) {
    proto::LogChunk chunk;
    chunk.set_request(request);
    chunk.set_text(text);
    requests.answered(host, chunk);
  }

  TimePoint now{1000s};
  AgentRequests<proto::LogChunk> requests{
      {.timeout = 10s, .too_many = {.message = "too many"}, .late = {.message = "no report"}}};
  std::vector<std::string> answers;
};

TEST_F(AgentRequestsTest, PassesOnTheFirstReplyOfTheRequestedHostOnly) {
  const std::int64_t first = asks("a"), second = asks("b");
  tells("b", first, "not its own");
  EXPECT_THAT(answers, IsEmpty());
  tells("b", second, "of b");
  tells("a", first, "of a");
  tells("a", first, "again");
  EXPECT_THAT(answers, ElementsAre("of b", "of a"));
}

TEST_F(AgentRequestsTest, RefusesRequestsToAHostThatHasGone) {
  asks("a");
  asks("b");
  requests.host_gone("a");
  EXPECT_THAT(answers, ElementsAre("host a: its agent has disconnected"));
}

TEST_F(AgentRequestsTest, RefusesRequestsAfterTheTimeout) {
  asks("a");
  requests.expire(now + 9s);
  EXPECT_THAT(answers, IsEmpty());
  requests.expire(now + 10s);
  EXPECT_THAT(answers, ElementsAre("host a: no report"));
}

TEST_F(AgentRequestsTest, RefusesMoreRequestsThanMayWait) {
  for (int i = 0; i < 64; ++i) EXPECT_NE(asks("a"), 0);
  EXPECT_EQ(asks("b"), 0);
  EXPECT_THAT(answers, ElementsAre("too many"));
}

}  // namespace
}  // namespace pfc
