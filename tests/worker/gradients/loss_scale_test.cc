#include "worker/gradients/loss_scale.h"

#include <gtest/gtest.h>

namespace pfc {
namespace {

TEST(LossScale, IsAlwaysOneWhenThereIsNone) {
  LossScale scale = LossScale::none();
  scale.update(false);
  EXPECT_EQ(scale.value(), 1);
  EXPECT_FALSE(scale.can_shrink());
}

TEST(LossScale, HalvesAtEveryOverflowDownToOne) {
  LossScale scale = LossScale::dynamic();
  EXPECT_EQ(scale.value(), 65536);
  for (double expected = 32768; expected >= 1; expected /= 2) {
    EXPECT_TRUE(scale.can_shrink());
    scale.update(false);
    EXPECT_EQ(scale.value(), expected);
  }
  EXPECT_FALSE(scale.can_shrink());
  scale.update(false);
  EXPECT_EQ(scale.value(), 1);
}

TEST(LossScale, DoublesAfterAHundredFiniteUpdatesInARow) {
  LossScale scale = LossScale::dynamic();
  for (int i = 0; i < 99; ++i) scale.update(true);
  scale.update(false);
  for (int i = 0; i < 99; ++i) scale.update(true);
  EXPECT_EQ(scale.value(), 32768);
  scale.update(true);
  EXPECT_EQ(scale.value(), 65536);
  for (int i = 0; i < 10'000; ++i) scale.update(true);
  EXPECT_EQ(scale.value(), 1 << 24);
}

TEST(LossScale, CountsTheUpdatesThatAreLeftOutAlsoAfterAResumeInAnotherPrecision) {
  LossScale scale = LossScale::dynamic();
  for (int i = 0; i < 60; ++i) scale.update(i % 20 != 0);
  EXPECT_EQ(scale.left_out(), 3);
  LossScale none = LossScale::none();
  none.update(false);
  EXPECT_EQ(none.left_out(), 0);
  none.restore(scale.state());
  EXPECT_EQ(none.left_out(), 3);
}

TEST(LossScale, CountsWhatWasLeftOutInStepsOfTheJobThatGoesOn) {
  const auto left_out = [](std::int64_t before, std::int64_t now) {
    LossScale scale = LossScale::dynamic();
    scale.restore({.value = 1024, .finite_updates = 0, .left_out = 5});
    scale.count_in_steps_of_this_job(before, now);
    return scale.left_out();
  };
  EXPECT_EQ(left_out(8, 8), 5);
  EXPECT_EQ(left_out(8, 2), 1) << "with four times the global batch";
  EXPECT_EQ(left_out(8, 16), 10);
  EXPECT_EQ(left_out(5, 1), 1) << "so the next update is number 1";
  EXPECT_EQ(left_out(0, 0), 5);
}

TEST(LossScale, ContinuesFromTheStateInACheckpoint) {
  LossScale one = LossScale::dynamic();
  for (int i = 0; i < 60; ++i) one.update(i != 20);
  LossScale other = LossScale::dynamic();
  other.restore(one.state());
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(one.value(), other.value());
    one.update(true);
    other.update(true);
  }
  LossScale none = LossScale::none();
  none.restore(one.state());
  EXPECT_EQ(none.value(), 1);
  one.restore(none.state());  // of a job that was in float32 until now
  EXPECT_GT(one.value(), 1);
}

}  // namespace
}  // namespace pfc
