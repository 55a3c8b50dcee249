#include "coordinator/report/job_progress.h"

#include <gtest/gtest.h>

namespace pfc {
namespace {

using namespace std::chrono_literals;

class JobProgressOfTwoWorkers : public ::testing::Test {
 protected:
  JobProgressOfTwoWorkers() { state.job.current.workers = {{.rank = 0}, {.rank = 1}}; }

  void reports(Rank rank, std::int64_t step, double samples_per_second) {
    WorkerState& worker = state.job.current.workers.at(rank);
    worker.training = true;
    worker.progress.set_step(step);
    worker.progress.set_total_steps(200);
    worker.progress.set_epoch(3);
    worker.progress.set_loss(1.5);
    worker.progress.set_samples_per_second(samples_per_second);
    progress.update(state, now);
  }

  TimePoint now{1000s};
  ClusterState state;
  JobProgress progress;
};

TEST_F(JobProgressOfTwoWorkers, HasTheStepOfRankZeroAndTheSpeedOfAll) {
  reports(0, 10, 40);
  reports(1, 11, 44);
  EXPECT_EQ(progress.step(), 10);
  EXPECT_EQ(progress.samples_per_second(), 84);
}

TEST_F(JobProgressOfTwoWorkers, HasNoTimeLeftAfterOneReport) {
  reports(0, 10, 40);
  EXPECT_FALSE(progress.remaining_seconds());
  EXPECT_EQ(progress_line(progress), "step 10/200 (5 %)  epoch 3  loss 1.5000  40.0 samples/s");
}

TEST_F(JobProgressOfTwoWorkers, EstimatesTheTimeLeftFromTheMeanSpeedSinceTheStart) {
  reports(0, 100, 40);  // resumed at step 100
  now += 60s;
  reports(0, 120, 40);
  EXPECT_DOUBLE_EQ(progress.remaining_seconds().value(), 240);
  EXPECT_EQ(progress_line(progress),
            "step 120/200 (60 %)  epoch 3  loss 1.5000  40.0 samples/s  4 min left");
}

TEST(DurationText, HasTheTwoLargestUnits) {
  EXPECT_EQ(duration_text(0.4), "0 s");
  EXPECT_EQ(duration_text(119), "119 s");
  EXPECT_EQ(duration_text(125), "2 min");
  EXPECT_EQ(duration_text(3600), "1 h");
  EXPECT_EQ(duration_text(3 * 3600 + 20 * 60), "3 h 20 min");
  EXPECT_EQ(duration_text(2 * 86400 + 4 * 3600), "2 days 4 h");
}

}  // namespace
}  // namespace pfc
