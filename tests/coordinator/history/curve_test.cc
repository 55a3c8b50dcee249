#include "coordinator/history/curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace pfc {
namespace {

class HistoryOfAJob : public ::testing::Test {
 protected:
  void reports(std::int64_t step, double loss, double speed = 100) {
    curve.add({.ms = step * 10,
               .step = step,
               .generation = 1,
               .reports = 1,
               .loss = {loss, loss, loss},
               .samples_per_second = {speed, speed, speed}});
  }
  void reports(int count) {
    for (int i = 1; i <= count; ++i) reports(i, i);
  }

  static constexpr int kMost = static_cast<int>(Curve::kMost);
  Curve curve;
};

TEST_F(HistoryOfAJob, HasAPointPerReportOfAShortJob) {
  reports(kMost);
  ASSERT_EQ(curve.points().size(), Curve::kMost);
  EXPECT_EQ(curve.points().back().step, kMost);
  EXPECT_EQ(curve.points().back().loss.mean, kMost);
}

TEST_F(HistoryOfAJob, NeverExceedsItsMaximumOfPoints) {
  for (int i = 1; i <= 20 * kMost; ++i) {
    reports(i, 1);
    ASSERT_LE(curve.points().size(), Curve::kMost);
  }
  EXPECT_GE(curve.points().size(), Curve::kMost / 2);
}

TEST_F(HistoryOfAJob, MergesNeighboursIntoTheirMeanAndRange) {
  reports(kMost + 1);
  ASSERT_EQ(curve.points().size(), Curve::kMost / 2 + 1);
  const CurvePoint& first = curve.points().front();
  EXPECT_EQ(first.step, 2);
  EXPECT_EQ(first.ms, 20);
  EXPECT_EQ(first.reports, 2);
  EXPECT_EQ(first.loss.mean, 1.5);
  EXPECT_EQ(first.loss.least, 1);
  EXPECT_EQ(first.loss.most, 2);
}

TEST_F(HistoryOfAJob, MergesNewReportsInPairsAfterItsPointsWereMerged) {
  reports(kMost + 2);
  const CurvePoint& last = curve.points().back();
  EXPECT_EQ(last.reports, 2);
  EXPECT_EQ(last.loss.mean, kMost + 1.5);
  EXPECT_EQ(curve.points().size(), Curve::kMost / 2 + 1);
}

TEST_F(HistoryOfAJob, KeepsAPeakOfAnyAge) {
  reports(1, 1'000, 5);
  for (int i = 2; i < 30 * kMost; ++i) reports(i, 1);
  EXPECT_EQ(curve.points().front().loss.most, 1'000);
  EXPECT_EQ(curve.points().front().samples_per_second.least, 5);
}

TEST_F(HistoryOfAJob, LeavesOutALossThatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  reports(1, nan);
  for (int i = 2; i <= kMost + 1; ++i) reports(i, 3);
  EXPECT_EQ(curve.points().front().loss.mean, 3);
  curve.clear(0);
  for (int i = 1; i <= kMost + 1; ++i) reports(i, nan);
  EXPECT_TRUE(std::isnan(curve.points().front().loss.mean));
}

TEST_F(HistoryOfAJob, ChangesItsVersionWhenPointsChange) {
  const auto before = curve.version();
  reports(kMost);
  EXPECT_EQ(curve.version(), before);
  reports(kMost + 1, 1);
  EXPECT_GT(curve.version(), before);
}

}  // namespace
}  // namespace pfc
