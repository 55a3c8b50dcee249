#include "worker/gradients/loss_scale.h"

#include <gtest/gtest.h>

namespace pfc {
namespace {

TEST(LossScale, StaysOneIfScalingIsOff) {
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

TEST(LossScale, CountsAppliedUpdatesEvenAfterAResumeInAnotherPrecision) {
  LossScale scale = LossScale::dynamic();
  for (int i = 0; i < 60; ++i) scale.update(i % 20 != 0);
  EXPECT_EQ(scale.updates(), 57);
  LossScale none = LossScale::none();
  none.restore(scale.state());
  none.update(true);
  EXPECT_EQ(none.updates(), 58);
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
  one.restore(none.state());  // the state of a float32 job
  EXPECT_GT(one.value(), 1);
}

}  // namespace
}  // namespace pfc
