#include "coordinator/net/name_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

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

}  // namespace
}  // namespace pfc
