#include "worker/input/input_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Runs steps of one second each. Returns the warnings and their times.
std::vector<std::pair<int, std::string>> train(InputWatch& watch, int steps, double waited) {
  std::vector<std::pair<int, std::string>> said;
  const TimePoint start = Clock::now();
  for (int i = 1; i <= steps; ++i) {
    if (const auto line = watch.step(1, waited, 1.6, 100, start + std::chrono::seconds(i))) {
      said.emplace_back(i, *line);
    }
  }
  return said;
}

TEST(InputWatch, ReportsWhatSlowsTrainingAndWhatToDo) {
  InputWatch watch({.loader_threads = 2, .cores = 8});
  const auto said = train(watch, 100, 0.25);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].first, 60);
  EXPECT_THAT(said[0].second,
              AllOf(HasSubstr("training waited for images during 25 % of the last 60 s"),
                    HasSubstr("2 loader threads can deliver 125 images/s, training used 100: raise "
                              "num_workers from 2 towards the 8 cores"),
                    HasSubstr("pfcctl data pack --size")));
}

TEST(InputWatch, WarnsAtMostEveryTenMinutes) {
  InputWatch watch({.loader_threads = 2, .cores = 8});
  const auto said = train(watch, 1300, 0.5);
  ASSERT_EQ(said.size(), 3u);
  EXPECT_EQ(said[1].first, 660);
  EXPECT_EQ(said[2].first, 1260);
}

TEST(InputWatch, IsSilentIfTrainingHardlyWaits) {
  InputWatch watch({.loader_threads = 2, .cores = 8});
  EXPECT_TRUE(train(watch, 500, 0.09).empty());
}

TEST(InputWatch, DoesNotSuggestMoreThreadsThanCores) {
  InputWatch watch({.loader_threads = 8, .cores = 8});
  const auto said = train(watch, 60, 0.25);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0].second, Not(HasSubstr("num_workers")));
}

}  // namespace
}  // namespace pfc
