// What a resumed job says of the checkpoint's job.
#include "worker/start/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pfc {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(OrderOfAResumedJob, IsTheSameWhereOtherKeysDiffer) {
  const json before{{"seed", 1}, {"shuffle", true}, {"read", "random"}, {"read_buffer_mib", 64}};
  json now = before;
  now["lr"] = 0.5;
  now["read_buffer_mib"] = 128;  // of no random order
  EXPECT_THAT(other_order(before, now), IsEmpty());
}

TEST(OrderOfAResumedJob, IsAnotherWhereItsKeysDiffer) {
  const json before{
      {"seed", 1}, {"shuffle", true}, {"read", "sequential"}, {"read_buffer_mib", 64}};
  const json now{{"seed", 2}, {"shuffle", false}, {"read", "sequential"}, {"read_buffer_mib", 128}};
  EXPECT_EQ(other_order(before, now),
            "seed 1 became 2, shuffle true became false, read_buffer_mib 64 became 128");
}

TEST(OrderOfAResumedJob, IsNotComparedWithAKeyThatAnOlderVersionDidNotWrite) {
  EXPECT_THAT(other_order(json::object(), json{{"seed", 2}, {"read", "sequential"}}), IsEmpty());
}

TEST(OrderOfAResumedJob, IsToldOfWithinAnEpochOnly) {
  const StepPlan plan{.global_batch = 8, .micro_batches_per_epoch = 5};
  CheckpointOnDisk checkpoint{.folder = "out/step-000000003", .images = 24, .other_order = {}};
  EXPECT_THAT(repeated_images_message(checkpoint, plan), IsEmpty());
  checkpoint.other_order = "seed 1 became 2";
  EXPECT_THAT(repeated_images_message(checkpoint, plan), HasSubstr("seed 1 became 2, so"));
  checkpoint.images = 80;  // two epochs
  EXPECT_THAT(repeated_images_message(checkpoint, plan), IsEmpty());
}

}  // namespace
}  // namespace pfc
