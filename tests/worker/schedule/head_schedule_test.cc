#include "worker/schedule/head_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pfc {
namespace {

/// Ten epochs of ten steps.
JobConfig ten_epochs() {
  JobConfig job;
  job.batch_size = 10;
  job.num_epoch = 10;
  job.margin = {.m1 = 1.1, .m2 = 0.5, .m3 = 0.2};
  return job;
}

StepPlan plan_of(const JobConfig& job, int workers = 1, const TrainedSoFar& start = {}) {
  return plan_steps(job, workers, 100, start);
}

TEST(HeadSchedule, IsConstantIfTheJobSetsNoSchedule) {
  JobConfig job = ten_epochs();
  job.sample_rate = 0.3;
  for (const std::int64_t step : {1, 50, 100}) {
    const HeadSettings settings = head_settings(job, plan_of(job), step);
    EXPECT_EQ(settings.margin.m2, 0.5);
    EXPECT_EQ(settings.sample_rate, 0.3);
  }
}

// The expected margins are those of WeSpeaker's MarginScheduler with increase_start_epoch 3,
// fix_start_epoch 6, initial_margin 0, final_margin 0.5 and 10 iterations per epoch, in iterations
// 19, 20, 21, 35, 49 and 50.
TEST(HeadSchedule, ExponentialMarginAgreesWithWeSpeaker) {
  JobConfig job = ten_epochs();
  job.margin_update = {.initial = {.m1 = 1, .m2 = 0, .m3 = 0}, .start_epoch = 2, .end_epoch = 5};
  const auto m2 = [&](std::int64_t step) {
    return head_settings(job, plan_of(job), step).margin.m2;
  };
  EXPECT_EQ(m2(1), 0);
  EXPECT_EQ(m2(20), 0);
  EXPECT_EQ(m2(21), 0);
  EXPECT_NEAR(m2(22), 0.10283589587665631, 1e-12);
  EXPECT_NEAR(m2(36), 0.4841886196048463, 1e-12);
  EXPECT_NEAR(m2(50), 0.49937053790258296, 1e-12);
  EXPECT_EQ(m2(51), 0.5);
  EXPECT_EQ(m2(100), 0.5);
}

TEST(HeadSchedule, LinearMarginMovesAllThreeParts) {
  JobConfig job = ten_epochs();
  job.margin_update = {.initial = {.m1 = 1, .m2 = 0.1, .m3 = 0},
                       .start_epoch = 0,
                       .end_epoch = 4,
                       .increase = MarginIncrease::kLinear};
  const Margin middle = head_settings(job, plan_of(job), 21).margin;
  EXPECT_NEAR(middle.m1, 1.05, 1e-12);
  EXPECT_NEAR(middle.m2, 0.3, 1e-12);
  EXPECT_NEAR(middle.m3, 0.1, 1e-12);
}

TEST(HeadSchedule, SampleRateChangesWithTheFirstStepOfAnEpoch) {
  JobConfig job = ten_epochs();
  job.sample_rate = SampleRate({{0, 0.1}, {2.5, 0.5}, {9, 1.0}});
  const auto rate = [&](std::int64_t step) {
    return head_settings(job, plan_of(job), step).sample_rate;
  };
  EXPECT_EQ(rate(1), 0.1);
  EXPECT_EQ(rate(25), 0.1);
  EXPECT_EQ(rate(26), 0.5);
  EXPECT_EQ(rate(90), 0.5);
  EXPECT_EQ(rate(91), 1.0);
  EXPECT_EQ(job.sample_rate.largest(), 1.0);
  EXPECT_EQ(job.sample_rate.smallest(), 0.1);
}

TEST(HeadSchedule, CorrectsLogitsForTheRateOfTheStep) {
  JobConfig job = ten_epochs();
  job.sample_rate = SampleRate({{0, 0.1}, {5, 1.0}});
  EXPECT_EQ(head_settings(job, plan_of(job), 1).drawn_logit, 0);
  job.sample_correction = true;
  EXPECT_NEAR(head_settings(job, plan_of(job), 1).drawn_logit, std::log(10), 1e-12);
  EXPECT_EQ(head_settings(job, plan_of(job), 51).drawn_logit, 0);
}

TEST(HeadSchedule, FollowsTheImagesIfTheNumberOfWorkersChanges) {
  JobConfig job = ten_epochs();
  job.sample_rate = SampleRate({{0, 0.1}, {5, 1.0}});
  job.margin_update = {.start_epoch = 2, .end_epoch = 8};
  const StepPlan planned = plan_of(job);
  const StepPlan two = plan_of(job, 2, planned.after(30));
  for (std::int64_t step = 31; step <= 100; step += 2) {
    const HeadSettings a = head_settings(job, planned, step);
    const HeadSettings b = head_settings(job, two, 30 + (step - 29) / 2);
    EXPECT_DOUBLE_EQ(a.margin.m2, b.margin.m2) << step;
    EXPECT_EQ(a.sample_rate, b.sample_rate) << step;
  }
}

}  // namespace
}  // namespace pfc
