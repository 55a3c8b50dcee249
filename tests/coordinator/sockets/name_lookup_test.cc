#include "coordinator/sockets/name_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <stop_token>

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(LookUp, ReturnsTheAddressesOfNamesOrAnEmptyList) {
  const auto found = look_up({"localhost", "no-such-host"}, 30s, [](const std::string& name) {
    return name == "localhost" ? resolve(name) : std::vector<std::string>();
  });
  EXPECT_THAT(found.at("localhost"), Contains("127.0.0.1"));
  EXPECT_THAT(found.at("no-such-host"), IsEmpty());
}

TEST(LookUp, OmitsANameIfNoServerAnswers) {
  const auto found =
      look_up({"here", "there"}, 30s,
              [](const std::string& name) -> std::optional<std::vector<std::string>> {
                if (name == "there") return std::nullopt;
                return std::vector<std::string>{"10.0.0.1"};
              });
  EXPECT_THAT(found, ElementsAre(Pair("here", ElementsAre("10.0.0.1"))));
}

TEST(LookUp, OmitsANameThatIsNotResolvedInTime) {
  std::promise<void> ends;
  const std::shared_future<void> end = ends.get_future().share();
  const auto found = look_up({"slow", "quick"}, 2s, [end](const std::string& name) {
    if (name == "slow") end.wait();
    return std::vector<std::string>{"10.0.0.1"};
  });
  ends.set_value();
  EXPECT_THAT(found, ElementsAre(Pair("quick", ElementsAre("10.0.0.1"))));
}

class RepeatedLookups : public ::testing::Test {
 protected:
  /// Returns the names of each lookup. `b` has an address from the second lookup on.
  std::vector<std::vector<std::string>> names_of_lookups() {
    std::vector<std::vector<std::string>> all;
    lookup_.resolve_name = [&](const std::string& name) -> std::optional<std::vector<std::string>> {
      if (name == "dead") return std::nullopt;
      return std::vector<std::string>(name == "a" || all.size() == 1 ? 1 : 0, "10.0.0.1");
    };
    lookup_.run(stop_.get_token(), [&](const auto& names, const FoundAddresses& found) {
      all.push_back(names);
      EXPECT_EQ(found.contains("dead"), false);
      if (all.size() == 3) stop_.request_stop();
    });
    return all;
  }

  std::stop_source stop_;
  RepeatedLookup lookup_{.names = {"a", "b"}, .limit = 60s, .pause = 1ms, .each = 30s};
};

TEST_F(RepeatedLookups, EndWhenAllNamesHaveAnAddress) {
  EXPECT_THAT(names_of_lookups(), ElementsAre(ElementsAre("a", "b"), ElementsAre("b")));
}

TEST_F(RepeatedLookups, ContinueForANameWithoutAnswerUntilTheyAreStopped) {
  lookup_.names = {"a", "dead"};
  EXPECT_THAT(names_of_lookups(),
              ElementsAre(ElementsAre("a", "dead"), ElementsAre("dead"), ElementsAre("dead")));
}

TEST_F(RepeatedLookups, DoNotBeginAfterTheirLimit) {
  lookup_.limit = 1ms;
  EXPECT_THAT(names_of_lookups(), IsEmpty());
}

}  // namespace
}  // namespace pfc
