#include "coordinator/rules/progress/stragglers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class StragglersOfAJob : public ::testing::Test {
 protected:
  /// Each rank sends this many reports, of one step each, with this time of its own work.
  std::vector<std::string> trains(int reports, const std::vector<double>& seconds) {
    std::vector<std::string> told;
    for (int i = 0; i < reports; ++i) {
      for (Rank rank = 0; rank < std::ssize(seconds); ++rank) {
        proto::Progress next = last_[rank];
        next.set_step(next.step() + 1);
        next.set_own_seconds(next.own_seconds() + seconds[static_cast<std::size_t>(rank)]);
        stragglers.add(rank, last_[rank], next);
        last_[rank] = next;
      }
      for (const auto& change : stragglers.update()) {
        told.push_back("rank " + std::to_string(change.rank) + " " + to_text(change));
      }
    }
    return told;
  }

  Stragglers stragglers;

 private:
  std::map<Rank, proto::Progress> last_;
};

TEST_F(StragglersOfAJob, ASlowRankIsReportedWhenItBecomesSlowAndWhenItRecovers) {
  EXPECT_THAT(trains(50, {0.2, 0.21, 0.19, 0.2}), IsEmpty());
  EXPECT_THAT(trains(30, {0.2, 0.2, 0.4, 0.2}),
              ElementsAre("rank 2 is slow: its own work takes 0.400 s a step, 2.0 times as long as "
                          "that of the other ranks (0.200 s)"));
  EXPECT_DOUBLE_EQ(stragglers.slowness(2), 2.0);
  EXPECT_EQ(stragglers.slowness(1), 0);
  EXPECT_THAT(trains(30, {0.2, 0.2, 0.2, 0.2}),
              ElementsAre("rank 2 is no longer slow: its own work takes 0.200 s a step, that of "
                          "the other ranks 0.200 s"));
  EXPECT_EQ(stragglers.slowness(2), 0);
}

TEST_F(StragglersOfAJob, ARankOfTwoIsComparedWithTheOtherRank) {
  trains(30, {0.2, 0.31});
  EXPECT_EQ(stragglers.slowness(0), 0);
  EXPECT_GT(stragglers.slowness(1), 1.5);
}

TEST_F(StragglersOfAJob, AFewLongStepsDoNotMakeARankSlow) {
  trains(40, {0.2, 0.2, 0.2});
  EXPECT_THAT(trains(9, {0.2, 5.0, 0.2}), IsEmpty());
  EXPECT_THAT(trains(20, {0.2, 0.2, 0.2}), IsEmpty());
}

TEST_F(StragglersOfAJob, NoRankIsJudgedBeforeTwentyReports) {
  EXPECT_THAT(trains(20, {0.2, 2.0}), IsEmpty()) << "the first report has no predecessor";
  EXPECT_EQ(trains(1, {0.2, 2.0}).size(), 1U);
}

TEST_F(StragglersOfAJob, ADifferenceOfAFewMillisecondsIsNotReported) {
  EXPECT_THAT(trains(40, {0.002, 0.009}), IsEmpty());
}

TEST_F(StragglersOfAJob, ALoneWorkerIsNeverSlow) { EXPECT_THAT(trains(40, {0.2}), IsEmpty()); }

TEST_F(StragglersOfAJob, AReportOfSeveralStepsCountsAsTheirMean) {
  proto::Progress before, now;
  before.set_own_seconds(1);
  for (int i = 0; i < 20; ++i) {
    now.set_step(before.step() + 5);
    now.set_own_seconds(before.own_seconds() + 2);
    stragglers.add(0, before, now);
    before = now;
  }
  EXPECT_DOUBLE_EQ(stragglers.own_seconds(0), 0.4);
}

}  // namespace
}  // namespace pfc
