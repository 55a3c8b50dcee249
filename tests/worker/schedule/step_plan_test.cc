#include "worker/schedule/step_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

JobConfig job_of_epochs(std::int64_t batch, double epochs) {
  JobConfig j;
  j.batch_size = batch;
  j.num_epoch = epochs;
  return j;
}

TEST(StepPlan, CountsWholeGlobalBatchesOnly) {
  const StepPlan plan = plan_steps(job_of_epochs(32, 20), /*world_size=*/2, /*images=*/1000);
  EXPECT_EQ(plan.global_batch, 64);
  EXPECT_EQ(plan.micro_batches_per_epoch, 15);
  EXPECT_EQ(plan.total_steps, 300);
}

TEST(StepPlan, CountsOptimizerStepsUnderGradientAccumulation) {
  JobConfig j = job_of_epochs(32, 2);
  j.gradient_acc = 4;
  j.warmup_epoch = 1;
  const StepPlan plan = plan_steps(j, 1, 1024);  // 32 micro-batches an epoch
  EXPECT_EQ(plan.global_batch, 128);
  EXPECT_EQ(plan.micro_batches_per_epoch, 32);
  EXPECT_EQ(plan.micro_batches_per_step, 4);
  EXPECT_EQ(plan.total_steps, 16);
  EXPECT_EQ(plan.warmup_steps, 8);
}

TEST(StepPlan, AcceptsAPartOfAnEpoch) {
  EXPECT_EQ(plan_steps(job_of_epochs(10, 0.5), 1, 100).total_steps, 5);
}

TEST(StepPlan, LosesNoStepToRounding) {
  JobConfig j = job_of_epochs(10, 30);
  j.gradient_acc = 3;
  j.warmup_epoch = 3;
  const StepPlan plan = plan_steps(j, 1, 490);  // 49 micro-batches an epoch, 16 1/3 steps
  EXPECT_EQ(plan.total_steps, 490);
  EXPECT_EQ(plan.warmup_steps, 49);
  for (std::int64_t acc = 1; acc <= 64; ++acc) {
    for (std::int64_t epochs = 1; epochs <= 64; ++epochs) {
      JobConfig all = job_of_epochs(10, static_cast<double>(epochs));
      all.gradient_acc = acc;
      ASSERT_EQ(plan_steps(all, 1, 970).total_steps, std::max<std::int64_t>(1, 97 * epochs / acc));
    }
  }
}

TEST(StepPlan, TakesPartsOfAnEpochAsTheDecimalsThatTheyAre) {
  for (int percent = 1; percent <= 1000; ++percent) {
    EXPECT_EQ(plan_steps(job_of_epochs(10, percent / 100.0), 1, 1000).total_steps, percent);
  }
}

TEST(StepPlan, EndsAtMaxStepsWithoutChangingTheLearningRate) {
  JobConfig j = job_of_epochs(10, 2);
  j.max_steps = 7;
  EXPECT_EQ(plan_steps(j, 1, 100).total_steps, 20);
  EXPECT_EQ(plan_steps(j, 1, 100).last_step, 7);
  j.max_steps = 70;
  EXPECT_EQ(plan_steps(j, 1, 100).last_step, 20);
}

TEST(StepPlan, RejectsDataThatDoesNotFillABatch) {
  EXPECT_EQ(testing::message_of<InputError>([] { plan_steps(job_of_epochs(64, 1), 2, 100); }),
            "the data has 100 images, fewer than one batch of 128 (2 workers x batch_size 64): "
            "lower batch_size");
  EXPECT_EQ(testing::message_of<InputError>([] { plan_steps(job_of_epochs(64, 1), 1, 1); }),
            "the data has 1 image, fewer than one batch of 64 (1 worker x batch_size 64): lower "
            "batch_size");
}

TEST(StepPlan, CountsDoneStepsByImagesSeenWhenTheGlobalBatchHasChanged) {
  const StepPlan four = plan_steps(job_of_epochs(8, 1), 4, 10000);
  const StepPlan one = plan_steps(job_of_epochs(8, 1), 1, 10000);
  const StepPlan three = plan_steps(job_of_epochs(8, 1), 3, 10000);
  const std::int64_t seen = 10 * four.global_batch;
  EXPECT_EQ(steps_done(four, seen), 10);
  EXPECT_EQ(steps_done(one, seen), 40);
  EXPECT_EQ(steps_done(three, seen), 13);
}

}  // namespace
}  // namespace pfc
