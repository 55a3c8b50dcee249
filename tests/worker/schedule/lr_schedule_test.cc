#include "worker/schedule/lr_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace pfc {
namespace {

LrSchedule polynomial(double power) {
  return {.kind = ScheduleKind::kPolynomial, .power = power, .epochs = {}, .gamma = 0.1};
}

/// Returns a plan whose steps have this many micro-batches of one image.
StepPlan plan(std::int64_t warmup_steps, std::int64_t total_steps, std::int64_t images = 20,
              std::int64_t gradient_acc = 1) {
  const StepBatch size{.world_size = 1, .batch_size = 1, .gradient_acc = gradient_acc};
  return {.batch = size,
          .images = images,
          .start = {.planned = size},
          .total_steps = total_steps,
          .planned_steps = total_steps,
          .warmup_steps = warmup_steps,
          .last_step = total_steps};
}

// The expected rates are those of arcface_torch's PolynomialLRWarmup after step - 1 calls of its
// step().
TEST(LrSchedule, PolynomialAgreesWithArcfaceTorch) {
  const LrScheduler linear(polynomial(1), 0.1, plan(10, 100));
  EXPECT_NEAR(linear.at(11), 0.1, 1e-12);
  EXPECT_NEAR(linear.at(12), 0.0988888888888889, 1e-12);
  EXPECT_NEAR(linear.at(51), 0.055555555555555594, 1e-12);
  EXPECT_NEAR(linear.at(100), 0.0011111111111111076, 1e-12);

  const LrScheduler square(polynomial(2), 0.1, plan(10, 100));
  EXPECT_NEAR(square.at(12), 0.09779012345679014, 1e-12);
  EXPECT_NEAR(square.at(100), 1.2345679012345609e-05, 1e-12);

  const LrScheduler no_warmup(polynomial(2), 0.1, plan(0, 50));
  EXPECT_NEAR(no_warmup.at(1), 0.1, 1e-12);
  EXPECT_NEAR(no_warmup.at(2), 0.09604, 1e-12);
  EXPECT_NEAR(no_warmup.at(50), 4e-05, 1e-12);
}

// The expected rates are those of PyTorch's CosineAnnealingLR, with eta_min 0 and then with 0.02.
TEST(LrSchedule, CosineAgreesWithPyTorch) {
  const LrScheduler to_zero({.kind = ScheduleKind::kCosine}, 0.1, plan(10, 100));
  EXPECT_NEAR(to_zero.at(5), 0.05, 1e-12);  // warm-up
  EXPECT_NEAR(to_zero.at(11), 0.1, 1e-12);
  EXPECT_NEAR(to_zero.at(12), 0.0999695413509548, 1e-12);
  EXPECT_NEAR(to_zero.at(51), 0.058682408883346526, 1e-12);
  EXPECT_NEAR(to_zero.at(100), 3.045864904521188e-05, 1e-12);
  EXPECT_EQ(to_zero.at(101), 0.0);

  const LrScheduler above({.kind = ScheduleKind::kCosine, .final_factor = 0.2}, 0.1, plan(0, 50));
  EXPECT_NEAR(above.at(1), 0.1, 1e-12);
  EXPECT_NEAR(above.at(2), 0.09992106913713086, 1e-12);
  EXPECT_NEAR(above.at(26), 0.06, 1e-12);
  EXPECT_NEAR(above.at(50), 0.02007893086286914, 1e-12);
  EXPECT_NEAR(above.at(51), 0.02, 1e-12);
}

// The expected rates are those of PyTorch's OneCycleLR, with its defaults and then with other
// options.
TEST(LrSchedule, OneCycleAgreesWithPyTorch) {
  const LrScheduler cycle({.kind = ScheduleKind::kOneCycle}, 0.1, plan(0, 100));
  EXPECT_NEAR(cycle.at(1), 0.004, 1e-12);
  EXPECT_NEAR(cycle.at(2), 0.004281378056590748, 1e-12);
  EXPECT_NEAR(cycle.at(15), 0.04940133238789996, 1e-12);
  EXPECT_NEAR(cycle.at(30), 0.1, 1e-12);
  EXPECT_NEAR(cycle.at(31), 0.09994965352845243, 1e-12);
  EXPECT_NEAR(cycle.at(61), 0.05892800902855288, 1e-12);
  EXPECT_NEAR(cycle.at(99), 5.07464715475788e-05, 1e-12);
  EXPECT_NEAR(cycle.at(100), 4e-07, 1e-15);
  EXPECT_NEAR(cycle.at(101), 4e-07, 1e-15);

  const LrScheduler peak_between_steps(
      {.kind = ScheduleKind::kOneCycle, .pct_start = 0.5, .div_factor = 10, .final_div_factor = 4},
      0.1, plan(0, 7));
  const std::vector<double> rates{0.01,
                                  0.041094235253127366,
                                  0.09140576474687263,
                                  0.09517223231024294,
                                  0.06209789553037033,
                                  0.020854872159386743,
                                  0.0025};
  for (std::size_t i = 0; i < rates.size(); ++i) {
    EXPECT_NEAR(peak_between_steps.at(static_cast<std::int64_t>(i) + 1), rates[i], 1e-12) << i;
  }
}

TEST(LrSchedule, OneCycleMayRiseForNoStepOrForOneStep) {
  const LrSchedule falling{.kind = ScheduleKind::kOneCycle, .pct_start = 0};
  EXPECT_NEAR(LrScheduler(falling, 0.1, plan(0, 4)).at(4), 4e-07, 1e-15);
  EXPECT_GT(LrScheduler(falling, 0.1, plan(0, 4)).at(1), 0.05);
  const LrSchedule first{.kind = ScheduleKind::kOneCycle, .pct_start = 0.25};
  EXPECT_NEAR(LrScheduler(first, 0.1, plan(0, 4)).at(1), 0.1, 1e-12);
}

TEST(LrSchedule, WarmUpRisesToTheBaseRate) {
  const LrScheduler lr(polynomial(1), 0.1, plan(10, 100));
  EXPECT_NEAR(lr.at(1), 0.01, 1e-12);
  EXPECT_NEAR(lr.at(5), 0.05, 1e-12);
  EXPECT_NEAR(lr.at(10), 0.1, 1e-12);
}

TEST(LrSchedule, EveryStepHasARateAboveZero) {
  for (const double power : {0.5, 1.0, 2.0}) {
    for (const std::int64_t warm : {0, 1, 19, 20}) {
      const LrScheduler lr(polynomial(power), 0.1, plan(warm, 20));
      for (std::int64_t step = 1; step <= 20; ++step) EXPECT_GT(lr.at(step), 0) << warm << step;
    }
  }
}

TEST(LrSchedule, JobOfOneStepTrainsAtTheBaseRate) {
  EXPECT_EQ(LrScheduler(polynomial(1), 0.1, plan(0, 1)).at(1), 0.1);
}

TEST(LrSchedule, PolynomialIsZeroAfterTheLastStep) {
  EXPECT_EQ(LrScheduler(polynomial(1), 0.1, plan(0, 50)).at(51), 0.0);
}

TEST(LrSchedule, WarmUpMayLastTheWholeJob) {
  const LrScheduler lr(polynomial(1), 0.1, plan(50, 50));
  EXPECT_NEAR(lr.at(25), 0.05, 1e-12);
  EXPECT_NEAR(lr.at(50), 0.1, 1e-12);
}

TEST(LrSchedule, MultistepMultipliesAfterTheGivenEpochs) {
  const LrSchedule schedule{
      .kind = ScheduleKind::kMultistep, .power = 1, .epochs = {2, 3}, .gamma = 0.5};
  const LrScheduler lr(schedule, 0.8, plan(4, 100, 10));
  EXPECT_NEAR(lr.at(2), 0.4, 1e-12);  // warm-up
  EXPECT_NEAR(lr.at(5), 0.8, 1e-12);
  EXPECT_NEAR(lr.at(20), 0.8, 1e-12);  // the last step of the second epoch
  EXPECT_NEAR(lr.at(21), 0.4, 1e-12);
  EXPECT_NEAR(lr.at(30), 0.4, 1e-12);
  EXPECT_NEAR(lr.at(31), 0.2, 1e-12);
  EXPECT_NEAR(lr.at(100), 0.2, 1e-12);
}

TEST(LrSchedule, MultistepDoesNotRoundEpochsWithFractionsOfAStep) {
  // Epoch 3 j ends with step 50 j.
  for (std::int64_t j = 1; j <= 40; ++j) {
    const LrSchedule schedule{
        .kind = ScheduleKind::kMultistep, .power = 1, .epochs = {3 * j}, .gamma = 0.5};
    const LrScheduler lr(schedule, 0.8, plan(0, 3000, 50, 3));
    EXPECT_EQ(lr.at(50 * j), 0.8) << j;
    EXPECT_EQ(lr.at(50 * j + 1), 0.4) << j;
  }
}

/// A job of 10 epochs of 960 images, planned for 4 workers with batches of 8.
JobConfig planned_for_four() {
  JobConfig job;
  job.batch_size = 8;
  job.num_epoch = 10;
  job.warmup_epoch = 1;
  return job;
}

TEST(LrSchedule, FollowsTheImagesIfTheNumberOfWorkersChanges) {
  const JobConfig job = planned_for_four();
  for (const LrSchedule& schedule :
       {polynomial(1), polynomial(2), LrSchedule{.kind = ScheduleKind::kCosine},
        LrSchedule{.kind = ScheduleKind::kOneCycle},
        LrSchedule{.kind = ScheduleKind::kMultistep, .power = 1, .epochs = {4, 7}, .gamma = 0.1}}) {
    const StepPlan four = plan_steps(job, 4, 960);
    const LrScheduler planned(schedule, 0.1, four);
    for (const std::int64_t done : {7, 30, 45, 150}) {
      const StepPlan two = plan_steps(job, 2, 960, four.after(done));
      EXPECT_EQ(two.last_step, done + 2 * (300 - done));
      const LrScheduler resized(schedule, 0.1, two);
      for (std::int64_t step = done + 1; step <= 300; ++step) {
        EXPECT_DOUBLE_EQ(resized.at(done + 2 * (step - done) - 1), planned.at(step)) << step;
      }
      // Between the planned steps, the rate is between the rates of the planned steps.
      for (std::int64_t step = two.first_step() + 1; step < two.last_step; step += 2) {
        const auto [low, high] = std::minmax({resized.at(step - 1), resized.at(step + 1)});
        EXPECT_GE(resized.at(step), low);
        EXPECT_LE(resized.at(step), high);
      }
      EXPECT_GT(resized.at(two.last_step), 0);
    }
  }
}

TEST(LrSchedule, ScalesWithTheNumberOfWorkersAccordingToLrScaling) {
  JobConfig job = planned_for_four();
  const TrainedSoFar start = plan_steps(job, 4, 960).after(10);
  const auto factor = [&](int workers) {
    return lr_factor(job, plan_steps(job, workers, 960, start));
  };
  EXPECT_EQ(factor(4), 1);
  EXPECT_EQ(factor(1), 0.25);
  EXPECT_EQ(factor(6), 1.5);
  job.optimizer = OptimizerKind::kAdamW;
  EXPECT_EQ(factor(1), 0.5);
  job.lr_scaling = LrScaling::kLinear;
  EXPECT_EQ(factor(1), 0.25);
  job.lr_scaling = LrScaling::kNone;
  EXPECT_EQ(factor(1), 1);
  job.lr_scaling = LrScaling::kSqrt;
  EXPECT_DOUBLE_EQ(factor(2), std::sqrt(0.5));
  job.batch_size = 4;
  job.gradient_acc = 3;
  EXPECT_EQ(factor(4), 1) << "gradient_acc was chosen by the user";
  job = planned_for_four();
  job.gradient_acc = 2;
  EXPECT_EQ(factor(2), 1) << "as many images a step as before";
}

TEST(LrSchedule, RejectsStepsBeforeThePlan) {
  EXPECT_THROW((void)LrScheduler(polynomial(1), 0.1, plan(0, 50)).at(0), std::logic_error);
}

}  // namespace
}  // namespace pfc
