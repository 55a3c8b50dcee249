#include "coordinator/rules/job_progress.h"

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
    worker.progress.set_steps(1);
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

TEST_F(JobProgressOfTwoWorkers, DoesNotEstimateTheTimeLeftAfterOneReport) {
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

TEST_F(JobProgressOfTwoWorkers, CountsTheImagesThatALaterGenerationTrainsAgain) {
  const auto reports_images = [&](Generation generation, std::int64_t resumed, std::int64_t seen) {
    state.job.current.number = generation;
    proto::Progress& lead = state.job.current.workers[0].progress;
    lead.set_resumed_images(resumed);
    lead.set_images_seen(seen);
    reports(0, seen / 8, 40);
  };
  reports_images(1, 0, 80);
  EXPECT_EQ(progress.images_lost(), 0);
  reports_images(2, 48, 48);
  reports_images(2, 48, 120);
  EXPECT_EQ(progress.images_lost(), 32);
  EXPECT_EQ(progress.images_seen(), 120);
  reports_images(3, 120, 120);  // a planned generation resumes from a checkpoint of the last step
  EXPECT_EQ(progress.images_lost(), 32);
}

TEST_F(JobProgressOfTwoWorkers, KeepsTheLossUntilANewGenerationCompletesAStep) {
  EXPECT_FALSE(progress.known());
  reports(0, 10, 40);
  state.job.current.number = 2;
  state.job.current.workers[0].progress.Clear();
  progress.update(state, now);
  EXPECT_TRUE(progress.known());
  EXPECT_EQ(progress.loss(), 1.5);
}

TEST(JobProgress, ContinuesTheCountOfAnotherCoordinator) {
  ClusterState state;
  state.job.current.number = 3;
  WorkerState& lead = state.job.current.workers.emplace_back();
  lead.training = true;
  lead.progress.set_images_seen(120);
  lead.progress.set_resumed_images(80);
  JobProgress next;
  next.count_on(3, 110, 40);
  next.update(state, {});
  EXPECT_EQ(next.images_lost(), 40) << "the generation is still the same";
  state.job.current.number = 4;
  next.update(state, {});
  EXPECT_EQ(next.images_lost(), 80) << "of 120 images, 80 are in the new state";
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
