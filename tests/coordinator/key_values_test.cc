#include "coordinator/key_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

  TimePoint now{1000s};
  KeyValues values;
  std::vector<std::string> answers;
};

TEST_F(KeyValueStoreOfAGeneration, AnswersAtOnceWhenTheValueIsSet) {
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
  EXPECT_TRUE(values.set("k", half)) << "the value that is replaced does not count";
  EXPECT_FALSE(values.set("l", half));
}

TEST_F(KeyValueStoreOfAGeneration, RefusesWaitingCallsWhenItIsCleared) {
  values.set("old", "x");
  asks("id", 1s);
  values.clear({.message = "going away"});
  asks("old", 0ms);
  EXPECT_THAT(answers, ElementsAre("id=! going away"));
}

}  // namespace
}  // namespace pfc
