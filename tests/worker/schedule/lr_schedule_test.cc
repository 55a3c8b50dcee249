#include "worker/schedule/lr_schedule.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace pfc {
namespace {

LrSchedule polynomial(double power) {
  return {.kind = ScheduleKind::kPolynomial, .power = power, .epochs = {}, .gamma = 0.1};
}

// What arcface_torch's PolynomialLRWarmup gives for these steps.
TEST(LrSchedule, PolynomialAgreesWithArcfaceTorch) {
  const LrScheduler linear(polynomial(1), 0.1, 10, 100, 20);
  EXPECT_NEAR(linear.at(1), 0.01, 1e-12);
  EXPECT_NEAR(linear.at(5), 0.05, 1e-12);
  EXPECT_NEAR(linear.at(10), 0.1, 1e-12);
  EXPECT_NEAR(linear.at(11), 0.0988888888888889, 1e-12);
  EXPECT_NEAR(linear.at(50), 0.055555555555555594, 1e-12);
  EXPECT_NEAR(linear.at(99), 0.0011111111111111076, 1e-12);
  EXPECT_EQ(linear.at(100), 0.0);

  const LrScheduler square(polynomial(2), 0.1, 10, 100, 20);
  EXPECT_NEAR(square.at(11), 0.09779012345679014, 1e-12);
  EXPECT_NEAR(square.at(99), 1.2345679012345609e-05, 1e-12);

  const LrScheduler no_warmup(polynomial(2), 0.1, 0, 50, 20);
  EXPECT_NEAR(no_warmup.at(1), 0.09604, 1e-12);
  EXPECT_NEAR(no_warmup.at(49), 4e-05, 1e-12);
}

TEST(LrSchedule, PolynomialStaysAtZeroAfterTheLastStep) {
  EXPECT_EQ(LrScheduler(polynomial(1), 0.1, 0, 50, 20).at(51), 0.0);
}

TEST(LrSchedule, WarmUpMayLastTheWholeJob) {
  const LrScheduler lr(polynomial(1), 0.1, 50, 50, 20);
  EXPECT_NEAR(lr.at(25), 0.05, 1e-12);
  EXPECT_NEAR(lr.at(50), 0.1, 1e-12);
}

TEST(LrSchedule, MultistepMultipliesAfterTheGivenEpochs) {
  const LrSchedule schedule{
      .kind = ScheduleKind::kMultistep, .power = 1, .epochs = {2, 3}, .gamma = 0.5};
  const LrScheduler lr(schedule, 0.8, 4, 100, 10);
  EXPECT_NEAR(lr.at(2), 0.4, 1e-12);  // warm-up
  EXPECT_NEAR(lr.at(5), 0.8, 1e-12);
  EXPECT_NEAR(lr.at(20), 0.8, 1e-12);  // the last step of the second epoch
  EXPECT_NEAR(lr.at(21), 0.4, 1e-12);
  EXPECT_NEAR(lr.at(30), 0.4, 1e-12);
  EXPECT_NEAR(lr.at(31), 0.2, 1e-12);
  EXPECT_NEAR(lr.at(100), 0.2, 1e-12);
}

TEST(LrSchedule, RejectsStepsBelowOne) {
  EXPECT_THROW((void)LrScheduler(polynomial(1), 0.1, 0, 50, 20).at(0), std::logic_error);
}

}  // namespace
}  // namespace pfc
