#include "coordinator/workers/key_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class KeyValueStoreOfAGeneration : public ::testing::Test {
 protected:
  void asks(const std::string& key, std::chrono::milliseconds timeout) {
    values.get(key, now + timeout, [this, key](std::variant<std::string, Refusal> result) {
      const auto* refusal = std::get_if<Refusal>(&result);
      answers.push_back(key + "=" + (refusal ? "! " + refusal->message : std::get<0>(result)));
    });
  }

  void asks_for_all(const std::string& prefix, int count, std::chrono::milliseconds timeout) {
    values.get_all(
        prefix, count, now + timeout, [this](std::variant<proto::GetValuesReply, Refusal> result) {
          const auto* refusal = std::get_if<Refusal>(&result);
          answers.push_back(refusal ? "! " + refusal->message : text_of(std::get<0>(result)));
        });
  }

  /// Returns the values; a missing one is its number in parentheses: "a,b,(2)".
  static std::string text_of(const proto::GetValuesReply& reply) {
    std::string text;
    std::size_t begin = 0;
    for (int i = 0; i < reply.sizes_size(); ++i) {
      const bool missing = std::ranges::count(reply.missing(), i) > 0;
      const std::string value = reply.values().substr(begin, reply.sizes(i));
      begin += reply.sizes(i);
      text += (i == 0 ? "" : ",") + (missing ? "(" + std::to_string(i) + ")" : value);
    }
    return text;
  }

  TimePoint now{1000s};
  KeyValues values;
  std::vector<std::string> answers;
};

TEST_F(KeyValueStoreOfAGeneration, AnswersImmediatelyIfTheValueIsSet) {
  values.set("id", "abc");
  asks("id", 0ms);
  EXPECT_THAT(answers, ElementsAre("id=abc"));
}

TEST_F(KeyValueStoreOfAGeneration, AnswersAllWaitingCallsWhenTheValueIsSet) {
  asks("id", 1s);
  asks("other", 1s);
  asks("id", 2s);
  EXPECT_TRUE(answers.empty());
  values.set("id", "abc");
  EXPECT_THAT(answers, ElementsAre("id=abc", "id=abc"));
}

TEST_F(KeyValueStoreOfAGeneration, NamesTheKeyThatWasNotSetInTime) {
  asks("id", 1s);
  values.expire(now + 999ms);
  EXPECT_TRUE(answers.empty());
  values.expire(now + 1s);
  EXPECT_THAT(answers, ElementsAre("id=! key 'id' was not set in time"));
}

TEST_F(KeyValueStoreOfAGeneration, KeepsTheNewestValue) {
  values.set("id", "abc");
  values.set("id", "d");
  asks("id", 0ms);
  EXPECT_THAT(answers, ElementsAre("id=d"));
}

TEST_F(KeyValueStoreOfAGeneration, RefusesTooLargeKeysAndValues) {
  EXPECT_FALSE(values.set(std::string(KeyValues::kMaxKey + 1, 'k'), "v"));
  EXPECT_FALSE(values.set("k", std::string(KeyValues::kMaxBytes, 'v')));
  const std::string half(KeyValues::kMaxBytes / 2 + 1, 'v');
  EXPECT_TRUE(values.set("k", half));
  EXPECT_TRUE(values.set("k", half)) << "a replaced value does not count";
  EXPECT_FALSE(values.set("l", half));
}

TEST_F(KeyValueStoreOfAGeneration, RefusesWaitingCallsWhenItIsCleared) {
  values.set("old", "x");
  asks("id", 1s);
  values.clear({.message = "going away"});
  asks("old", 0ms);
  EXPECT_THAT(answers, ElementsAre("id=! going away"));
}

TEST_F(KeyValueStoreOfAGeneration, AnswersForAllKeysWhenTheLastKeyIsSet) {
  values.set("here/1", "b");
  asks_for_all("here/", 3, 1s);
  asks_for_all("here/", 3, 1s);
  asks_for_all("here/", 2, 1s);
  values.set("here/0", "a");
  EXPECT_THAT(answers, ElementsAre("a,b"));
  values.set("here/0", "A");
  values.set("here/3", "d");
  values.set("here/02", "no number of a rank");
  values.set("there/2", "c");
  EXPECT_THAT(answers, ElementsAre("a,b"));
  values.set("here/2", "c");
  EXPECT_THAT(answers, ElementsAre("a,b", "A,b,c", "A,b,c"));
}

TEST_F(KeyValueStoreOfAGeneration, AnswersImmediatelyIfAllKeysAreSet) {
  values.set("here/0", "a");
  asks_for_all("here/", 1, 0ms);
  EXPECT_THAT(answers, ElementsAre("a"));
}

TEST_F(KeyValueStoreOfAGeneration, NamesTheKeysThatWereNotSetInTime) {
  values.set("here/1", "b");
  asks_for_all("here/", 3, 1s);
  asks_for_all("here/", 3, 3s);
  values.expire(now + 2s);
  EXPECT_THAT(answers, ElementsAre("(0),b,(2)"));
  values.set("here/0", "a");
  values.set("here/2", "c");
  EXPECT_THAT(answers, ElementsAre("(0),b,(2)", "a,b,c"));
}

TEST_F(KeyValueStoreOfAGeneration, RefusesCallsForSeveralKeysWhenItIsCleared) {
  asks_for_all("here/", 2, 1s);
  values.clear({.message = "over"});
  EXPECT_THAT(answers, ElementsAre("! over"));
}

TEST_F(KeyValueStoreOfAGeneration, RefusesToWaitForAKeyThatCannotBeSet) {
  asks(std::string(1'025, 'x'), 1s);
  EXPECT_EQ(answers.size(), 1U);
  EXPECT_THAT(answers.front(), HasSubstr("at most 1024 bytes"));
}

TEST_F(KeyValueStoreOfAGeneration, RefusesMoreCallsThanCanWait) {
  for (int i = 0; i < 65'536; ++i) asks("id", 1s);
  EXPECT_TRUE(answers.empty());
  asks("id", 1s);
  EXPECT_EQ(answers.size(), 1U);
}

TEST_F(KeyValueStoreOfAGeneration, RefusesMoreCallsForSeveralKeysThanCanWait) {
  for (int i = 0; i < 65'534; ++i) asks_for_all("a/", 1, 1s);
  asks_for_all("b/", 1, 1s);
  asks_for_all("c/", 1, 3s);
  EXPECT_TRUE(answers.empty());
  asks_for_all("a/", 1, 1s);
  asks_for_all("d/", 1, 1s);
  EXPECT_THAT(answers, ::testing::Each(HasSubstr("at most 65536 calls may wait for all")));
  EXPECT_EQ(answers.size(), 2U);
  values.set("a/0", "a");
  values.expire(now + 2s);
  EXPECT_EQ(answers.size(), 2U + 65'535U);
  for (int i = 0; i < 65'535; ++i) asks_for_all("e/", 1, 1s);
  EXPECT_EQ(answers.size(), 2U + 65'535U) << "answered calls no longer count as waiting";
  values.clear({.message = "over"});
  asks_for_all("e/", 1, 1s);
  EXPECT_EQ(answers.size(), 2U + 2 * 65'535U + 1U);
}

TEST_F(KeyValueStoreOfAGeneration, RefusesAnImpossibleNumberOfKeys) {
  for (const int count : {0, -1, 65'537}) asks_for_all("here/", count, 1s);
  asks_for_all("here/1", 2, 1s);
  EXPECT_EQ(answers.size(), 4U);
  for (const std::string& answer : answers) EXPECT_THAT(answer, HasSubstr("expected 1 to 65536"));
}

TEST_F(KeyValueStoreOfAGeneration, ForgetsCallsWhoseCallerHasGone) {
  const Patience gone(TimePoint::max(), [] { return true; });
  int ended = 0;
  values.get("id", gone, [&](const auto&) { ended += 1; });
  values.get_all("id", 2, gone, [&](const auto&) { ended += 1; });
  values.expire(now);
  EXPECT_EQ(ended, 2);
}

TEST_F(KeyValueStoreOfAGeneration, EndsACallWhenItsCallerGivesUp) {
  const Patience patience(now + 1s);
  EXPECT_EQ(patience.until(now + 1h).deadline(), now + 1s);
  EXPECT_EQ(patience.until(now + 1ms).deadline(), now + 1ms);
}

}  // namespace
}  // namespace pfc
