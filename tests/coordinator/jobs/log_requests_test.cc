#include "coordinator/jobs/log_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LogRequestsOfTwoHosts : public ::testing::Test {
 protected:
  std::int64_t asks(const std::string& host) {
    return requests.wait(
        host,
        [this](const std::variant<proto::LogsReply, Refusal>& result) {
          const auto* reply = std::get_if<proto::LogsReply>(&result);
          answers.push_back(reply == nullptr ? std::get<Refusal>(result).message : reply->text());
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
  LogRequests requests;
  std::vector<std::string> answers;
};

TEST_F(LogRequestsOfTwoHosts, AreAnsweredOnceByTheHostThatWasAsked) {
  const std::int64_t first = asks("a"), second = asks("b");
  tells("b", first, "not its own");
  EXPECT_THAT(answers, IsEmpty());
  tells("b", second, "of b");
  tells("a", first, "of a");
  tells("a", first, "again");
  EXPECT_THAT(answers, ElementsAre("of b", "of a"));
}

TEST_F(LogRequestsOfTwoHosts, AreRefusedWhenTheHostHasGone) {
  asks("a");
  asks("b");
  requests.host_gone("a");
  EXPECT_THAT(answers, ElementsAre("host a: its agent has gone"));
}

TEST_F(LogRequestsOfTwoHosts, AreRefusedAtTheirDeadline) {
  asks("a");
  requests.expire(now + 9s);
  EXPECT_THAT(answers, IsEmpty());
  requests.expire(now + 10s);
  EXPECT_THAT(answers, ElementsAre("host a: its agent has not sent the log in 10 s"));
}

TEST_F(LogRequestsOfTwoHosts, AreRefusedIfTooManyWait) {
  for (std::size_t i = 0; i < LogRequests::kMost; ++i) EXPECT_NE(asks("a"), 0);
  EXPECT_EQ(asks("b"), 0);
  EXPECT_THAT(answers, ElementsAre(HasSubstr("64 others read logs")));
}

TEST_F(LogRequestsOfTwoHosts, RefuseMoreThanWasRequested) {
  tells("a", asks("a"), std::string(LogRequests::kLongestChunk + 1, 'x'));
  EXPECT_THAT(answers, ElementsAre("host a: more was sent than was asked for"));
}

}  // namespace
}  // namespace pfc
