#include "coordinator/cluster/waiting_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WaitingCallsTest : public ::testing::Test {
 protected:
  struct Call {
    std::string name;
    Patience patience;
    Answer<std::string> answer;
  };

  void waits(const std::string& name, const Patience& patience = Patience()) {
    calls.add({.name = name, .patience = patience, .answer = [this, name](auto result) {
                 const auto* refusal = std::get_if<Refusal>(&result);
                 answers.push_back(name + (refusal ? "!" + refusal->message : std::get<0>(result)));
               }});
  }

  TimePoint now{1000s};
  WaitingCalls<Call> calls;
  std::vector<std::string> answers;
};

TEST_F(WaitingCallsTest, AnswersEachCallOnceInOrder) {
  for (const char* name : {"a", "b", "c"}) waits(name);
  const auto is_not_b = [](const Call& call) { return call.name != "b"; };
  const auto reply_of = [](const Call& call) { return "=" + call.name; };
  EXPECT_EQ(calls.answer_if(is_not_b, reply_of), 2U);
  EXPECT_EQ(calls.answer_if(is_not_b, reply_of), 0U);
  EXPECT_THAT(answers, ElementsAre("a=a", "c=c"));
  EXPECT_EQ(calls.size(), 1U);
}

TEST_F(WaitingCallsTest, EndsCallsAtTheirDeadlineOrWithoutACaller) {
  bool gone = false;
  waits("a", now + 1s);
  waits("b", now + 2s);
  waits("c", Patience(TimePoint::max(), [&gone] { return gone; }));
  const auto late = [](const Call&) { return Refusal{.message = "late"}; };
  calls.expire(now + 999ms, late);
  EXPECT_THAT(answers, IsEmpty());
  calls.expire(now + 1s, late);
  EXPECT_THAT(answers, ElementsAre("a!late"));
  gone = true;
  calls.expire(now + 1s, late);
  EXPECT_THAT(answers, ElementsAre("a!late", "c!late"));
}

TEST_F(WaitingCallsTest, RefusesAllCalls) {
  waits("a");
  waits("b");
  calls.answer_all(Refusal{.message = "over"});
  EXPECT_THAT(answers, ElementsAre("a!over", "b!over"));
  EXPECT_EQ(calls.size(), 0U);
}

TEST_F(WaitingCallsTest, AcceptsACallThatIsAddedWhileAnotherIsAnswered) {
  const auto waits_again = [this](const auto&) { waits("again"); };
  calls.add({.name = "a", .patience = {}, .answer = waits_again});
  calls.answer_if([](const Call&) { return true; }, [](const Call&) { return std::string(); });
  calls.add({.name = "b", .patience = {}, .answer = waits_again});
  calls.answer_all(std::string("="));
  EXPECT_THAT(answers, ElementsAre("again="));
  EXPECT_EQ(calls.size(), 1U);
}

}  // namespace
}  // namespace pfc
