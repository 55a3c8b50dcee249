#include "worker/schedule/lr_schedule.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace pfc {
namespace {

LrSchedule polynomial(double power) {
  return {.kind = ScheduleKind::kPolynomial, .power = power, .epochs = {}, .gamma = 0.1};
}

StepPlan plan(std::int64_t warmup_steps, std::int64_t total_steps) {
  return {.micro_batches_per_epoch = 20, .total_steps = total_steps, .warmup_steps = warmup_steps};
}

// What arcface_torch's PolynomialLRWarmup gives after step - 1 calls of its step().
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

TEST(LrSchedule, WarmUpRisesToTheBaseRate) {
  const LrScheduler lr(polynomial(1), 0.1, plan(10, 100));
  EXPECT_NEAR(lr.at(1), 0.01, 1e-12);
  EXPECT_NEAR(lr.at(5), 0.05, 1e-12);
  EXPECT_NEAR(lr.at(10), 0.1, 1e-12);
}

TEST(LrSchedule, EveryStepMovesAlsoTheLastOne) {
  for (const double power : {0.5, 1.0, 2.0}) {
    for (const std::int64_t warm : {0, 1, 19, 20}) {
      const LrScheduler lr(polynomial(power), 0.1, plan(warm, 20));
      for (std::int64_t step = 1; step <= 20; ++step) EXPECT_GT(lr.at(step), 0) << warm << step;
    }
  }
}

TEST(LrSchedule, AJobOfOneStepTrainsAtTheBaseRate) {
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
  const LrScheduler lr(
      schedule, 0.8,
      {.micro_batches_per_epoch = 10, .total_steps = 100, .last_step = 100, .warmup_steps = 4});
  EXPECT_NEAR(lr.at(2), 0.4, 1e-12);  // warm-up
  EXPECT_NEAR(lr.at(5), 0.8, 1e-12);
  EXPECT_NEAR(lr.at(20), 0.8, 1e-12);  // the last step of the second epoch
  EXPECT_NEAR(lr.at(21), 0.4, 1e-12);
  EXPECT_NEAR(lr.at(30), 0.4, 1e-12);
  EXPECT_NEAR(lr.at(31), 0.2, 1e-12);
  EXPECT_NEAR(lr.at(100), 0.2, 1e-12);
}

TEST(LrSchedule, MultistepCountsEpochsOfFractionsOfAStepWithoutRounding) {
  // Epoch 3 j ends with step 50 j.
  for (std::int64_t j = 1; j <= 40; ++j) {
    const LrSchedule schedule{
        .kind = ScheduleKind::kMultistep, .power = 1, .epochs = {3 * j}, .gamma = 0.5};
    const LrScheduler lr(schedule, 0.8,
                         {.micro_batches_per_epoch = 50,
                          .micro_batches_per_step = 3,
                          .total_steps = 3000,
                          .last_step = 3000});
    EXPECT_EQ(lr.at(50 * j), 0.8) << j;
    EXPECT_EQ(lr.at(50 * j + 1), 0.4) << j;
  }
}

TEST(LrSchedule, RejectsStepsBelowOne) {
  EXPECT_THROW((void)LrScheduler(polynomial(1), 0.1, plan(0, 50)).at(0), std::logic_error);
}

}  // namespace
}  // namespace pfc
