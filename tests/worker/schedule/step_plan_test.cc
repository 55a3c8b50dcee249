#include "worker/schedule/step_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

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

TEST(StepPlan, CountsOnlyWholeGlobalBatches) {
  const StepPlan plan = plan_steps(job_of_epochs(32, 20), /*world_size=*/2, /*images=*/1000);
  EXPECT_EQ(plan.batch.images(), 64);
  EXPECT_EQ(plan.micro_batches_per_epoch(), 15);
  EXPECT_EQ(plan.total_steps, 300);
}

TEST(StepPlan, CountsOptimizerStepsUnderGradientAccumulation) {
  JobConfig j = job_of_epochs(32, 2);
  j.gradient_acc = 4;
  j.warmup_epoch = 1;
  const StepPlan plan = plan_steps(j, 1, 1024);  // 32 micro-batches per epoch
  EXPECT_EQ(plan.batch.images(), 128);
  EXPECT_EQ(plan.micro_batches_per_epoch(), 32);
  EXPECT_EQ(plan.total_steps, 16);
  EXPECT_EQ(plan.warmup_steps, 8);
}

TEST(StepPlan, CountsEpochsBeforeAStepByImages) {
  const StepPlan plan = plan_steps(job_of_epochs(32, 20), 2, 1000);  // 15 steps per epoch
  EXPECT_EQ(plan.epochs_before(1), 0);
  EXPECT_EQ(plan.epochs_before(31), 2);
  EXPECT_LT(plan.epochs_before(30), 2);
  const StepPlan one = plan_steps(job_of_epochs(32, 20), 1, 1000, plan.after(30));
  EXPECT_EQ(one.epochs_before(31), 2);
  EXPECT_EQ(one.epochs_before(61), 3);
}

TEST(StepPlan, AcceptsAPartOfAnEpoch) {
  EXPECT_EQ(plan_steps(job_of_epochs(10, 0.5), 1, 100).total_steps, 5);
}

TEST(StepPlan, LosesNoStepToRounding) {
  JobConfig j = job_of_epochs(10, 30);
  j.gradient_acc = 3;
  j.warmup_epoch = 3;
  const StepPlan plan = plan_steps(j, 1, 490);  // 49 micro-batches per epoch, 16 1/3 steps
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

TEST(StepPlan, TreatsFractionsOfAnEpochAsDecimals) {
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

TEST(StepPlan, ContinuesUnchangedWithTheSameWorkersAndBatch) {
  JobConfig job = job_of_epochs(8, 6);
  job.gradient_acc = 3;
  const StepPlan whole = plan_steps(job, 2, 1000);
  for (std::int64_t step = 0; step <= whole.last_step; ++step) {
    const StepPlan rest = plan_steps(job, 2, 1000, whole.after(step));
    EXPECT_EQ(rest.first_step(), step + 1);
    EXPECT_EQ(rest.last_step, whole.last_step);
    EXPECT_FALSE(step > 0 && rest.resized());
    EXPECT_EQ(whole.planned_steps_of(whole.after(step).images), step);
    for (std::int64_t later = step; later <= whole.last_step; ++later) {
      ASSERT_EQ(rest.after(later).next, whole.after(later).next) << step << " " << later;
      ASSERT_EQ(rest.after(later).images, whole.after(later).images);
    }
  }
}

// Such a job once ended too early: planned as 60 steps of 2 workers x 4 images, it continued with
// one worker after 25 steps, and counted as completed after 240 of its 480 images.
TEST(StepPlan, TrainsAllPlannedImagesWithFewerWorkers) {
  JobConfig job = job_of_epochs(4, 100);
  job.max_steps = 60;
  const StepPlan two = plan_steps(job, 2, 1000);
  const StepPlan one = plan_steps(job, 1, 1000, two.after(25));
  EXPECT_TRUE(one.resized());
  EXPECT_EQ(one.first_step(), 26);
  EXPECT_EQ(one.last_step, 25 + 2 * 35);
  EXPECT_EQ(one.after(one.last_step).images, 480);
  EXPECT_EQ(plan_steps(job, 1, 1000, one.after(one.last_step)).last_step, one.last_step);
}

TEST(StepPlan, DiffersFromThePlannedImagesByLessThanAGlobalBatchAfterAnyChanges) {
  std::mt19937 random(28);
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int i = 0; i < 500; ++i) {
    JobConfig job = job_of_epochs(between(1, 9), between(1, 4));
    job.gradient_acc = between(1, 3);
    job.max_steps = between(1, 80);
    const std::int64_t images = between(72, 400);
    const StepPlan planned = plan_steps(job, between(1, 8), images);
    StepPlan plan = planned;
    while (plan.first_step() <= plan.last_step) {
      const auto steps = static_cast<int>(plan.last_step - plan.start.step);
      plan =
          plan_steps(job, between(1, 8), images, plan.after(plan.start.step + between(1, steps)));
    }
    const std::int64_t wanted = planned.after(planned.last_step).images;
    EXPECT_GE(plan.start.images, wanted);
    EXPECT_LT(plan.start.images, wanted + 8 * job.batch_size * job.gradient_acc);
  }
}

TEST(StepPlan, NeitherRepeatsNorLosesImagesWithinAnEpochAfterAChange) {
  const JobConfig job = job_of_epochs(6, 3);
  const StepPlan ten = plan_steps(job, 10, 100);  // leaves out 40 of 100 images
  EXPECT_EQ(ten.after(5).next, (DataPlace{5, 0}));
  const StepPlan one = plan_steps(job_of_epochs(6, 10), 1, 100, ten.after(1));
  EXPECT_EQ(one.batches(0).place_of(one.batches(0).first_batch), (DataPlace{1, 0}))
      << "a completed epoch is not repeated";

  const StepPlan three = plan_steps(job, 3, 100);           // batches of 18
  StepPlan four = plan_steps(job, 4, 100, three.after(2));  // batches of 24; starts at image 36
  const BatchPlan batches = four.batches(1);
  EXPECT_EQ(batches.first_batch, 2);
  EXPECT_EQ(batches.first_position(2), 36 + 6);
  EXPECT_EQ(batches.first_position(3), 60 + 6);
  EXPECT_EQ(batches.place_of(4), (DataPlace{1, 0})) << "84 to 99 do not fill a batch";
  EXPECT_EQ(batches.batches_to_end_of_epoch(2), 2);
}

TEST(StepPlan, SavesAfterThePlannedNumberOfImages) {
  const JobConfig job = job_of_epochs(4, 100);
  const StepPlan four = plan_steps(job, 4, 1600);
  std::vector<std::int64_t> images;
  const auto collect = [&](const StepPlan& plan, std::int64_t end) {
    for (std::int64_t step = plan.first_step(); step <= end; ++step) {
      if (plan.reaches_multiple(step, 10)) images.push_back(plan.after(step).images);
    }
  };
  collect(four, 25);
  const StepPlan three = plan_steps(job, 3, 1600, four.after(25));
  collect(three, 25 + 40);
  EXPECT_EQ(images, (std::vector<std::int64_t>{160, 320, 484, 640, 808}));
  EXPECT_FALSE(four.reaches_multiple(10, 0));
}

TEST(StepPlan, StartsAtAWholeMicroBatchInSequentialReading) {
  JobConfig job = job_of_epochs(6, 3);
  job.read = ReadKind::kSequential;
  const StepPlan three = plan_steps(job, 3, 100);
  EXPECT_EQ(plan_steps(job, 4, 100, three.after(2)).start.next, (DataPlace{0, 24}));
  EXPECT_EQ(plan_steps(job, 3, 100, three.after(2)).start.next, (DataPlace{0, 36}));
}

}  // namespace
}  // namespace pfc
