#include "worker/coordinator_link/progress_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pfc {
namespace {

using ::testing::ElementsAre;

TEST(ProgressMessage, CombinesTheTimesOfEachPhase) {
  const proto::Progress message = to_proto(
      {.phases = {{"forward", 0.5}, {"head", 0.001}, {"forward", 0.25}, {"forward", 100}}});
  ASSERT_EQ(message.phases_size(), 2);
  const proto::PhaseSeconds& forward = message.phases(0);
  EXPECT_EQ(forward.phase(), "forward");
  EXPECT_EQ(forward.seconds(), 100.75);
  EXPECT_EQ(forward.count(), 3);
  EXPECT_EQ(forward.longest(), 100);
  EXPECT_THAT(forward.buckets(), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1));
  EXPECT_THAT(message.phases(1).buckets(), ElementsAre(1));
}

TEST(ProgressMessage, AddsTheTimesOfAnUnsentReport) {
  proto::Progress message = to_proto({.phases = {{"forward", 0.5}}});
  add_phases(to_proto({.phases = {{"head", 0.1}, {"forward", 2}, {"forward", 0.5}}}), message);
  ASSERT_EQ(message.phases_size(), 2);
  EXPECT_EQ(message.phases(0).seconds(), 3);
  EXPECT_EQ(message.phases(0).count(), 3);
  EXPECT_EQ(message.phases(0).longest(), 2);
  EXPECT_THAT(message.phases(0).buckets(), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1));
  EXPECT_EQ(message.phases(1).phase(), "head");
}

TEST(ProgressMessage, OmitsMissingValues) {
  const proto::Progress message = to_proto({.comm = {{.purpose = "step", .calls = 1}}});
  EXPECT_FALSE(message.has_gpu());
  EXPECT_FALSE(message.has_checkpoints());
  EXPECT_EQ(message.comm(0).kinds_size(), 0);
}

TEST(ProgressMessage, ContainsGpuReadingsAndCollectivesByKind) {
  Progress progress{.comm = {{.purpose = "step"}}};
  progress.comm[0].kinds[0] = {.calls = 3, .sent_bytes = 100, .seconds = 0.5};
  progress.vitals.gpu = GpuReading{.utilisation = 0.5, .throttled = false};
  progress.checkpoints = {.count = 1, .bytes = 9};
  const proto::Progress message = to_proto(progress);
  ASSERT_EQ(message.comm(0).kinds_size(), 1);
  EXPECT_EQ(message.comm(0).kinds(0).kind(), "all_gather");
  EXPECT_EQ(message.comm(0).kinds(0).sent_bytes(), 100);
  EXPECT_EQ(message.gpu().utilisation(), 0.5);
  EXPECT_TRUE(message.gpu().has_throttled());
  EXPECT_FALSE(message.gpu().has_power_watts());
  EXPECT_EQ(message.checkpoints().bytes(), 9);
}

}  // namespace
}  // namespace pfc
