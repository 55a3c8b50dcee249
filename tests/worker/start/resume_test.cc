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

class OrderOfAResumedJob : public ::testing::Test {
 protected:
  [[nodiscard]] std::string other() const { return other_order(before_, now_); }
  void set(const char* key, const json& value) {
    before_.job[key] = value;
    now_.job[key] = value;
  }

  OrderedJob before_{.job = {{"seed", 1},
                             {"shuffle", true},
                             {"read", "random"},
                             {"read_buffer_mib", 64},
                             {"rec", "faces"}},
                     .micro_batch = 8};
  OrderedJob now_ = before_;
};

TEST_F(OrderOfAResumedJob, IsTheSameWhereOtherKeysDiffer) {
  now_.job["lr"] = 0.5;
  now_.job["read_buffer_mib"] = 128;  // of no random order
  now_.micro_batch = 12;              // likewise
  EXPECT_THAT(other(), IsEmpty());
}

TEST_F(OrderOfAResumedJob, IsAnotherWhereItsKeysDiffer) {
  set("read", "sequential");
  now_.job.update({{"seed", 2}, {"shuffle", false}, {"read_buffer_mib", 128}});
  EXPECT_EQ(other(), "seed 1 became 2, shuffle true became false, read_buffer_mib 64 became 128");
}

TEST_F(OrderOfAResumedJob, IsAnotherInSequentialReadingWithAnotherBatch) {
  set("read", "sequential");
  now_.micro_batch = 12;
  EXPECT_EQ(other(), "the batch of all workers 8 became 12");
  set("shuffle", false);
  EXPECT_THAT(other(), IsEmpty());
}

TEST_F(OrderOfAResumedJob, IsOfMicroBatches) {
  EXPECT_EQ(ordered_job({{"gradient_acc", 4}}, 32).micro_batch, 8);
  EXPECT_EQ(ordered_job(json::object(), 32).micro_batch, 0) << "not known";
}

TEST_F(OrderOfAResumedJob, IsTheSameForAnySeedWithoutShuffle) {
  set("shuffle", false);
  now_.job["seed"] = 2;
  EXPECT_THAT(other(), IsEmpty());
  now_.job["read"] = "sequential";
  EXPECT_THAT(other(), IsEmpty());
  set("rec", {"faces", "more"});
  EXPECT_EQ(other(), "seed 1 became 2, read \"random\" became \"sequential\"");
}

TEST_F(OrderOfAResumedJob, IsNotComparedWithAKeyThatAnOlderVersionDidNotWrite) {
  now_.job.update({{"seed", 2}, {"read", "sequential"}});
  EXPECT_THAT(other_order({.job = json::object()}, now_), IsEmpty());
}

TEST(RepeatedImages, AreToldOfWithinAnEpochOnly) {
  const StepPlan plan{.global_batch = 8, .micro_batches_per_epoch = 5};
  EXPECT_THAT(repeated_images_message("", plan, 4), IsEmpty());
  EXPECT_THAT(repeated_images_message("seed 1 became 2", plan, 4),
              HasSubstr("seed 1 became 2, so"));
  EXPECT_THAT(repeated_images_message("seed 1 became 2", plan, 11), IsEmpty()) << "two epochs";
}

TEST(RepeatedImages, AreNoneWhereTheNewPlanBeginsAnEpoch) {
  const std::int64_t images_seen = 400;  // an epoch of batches of 8, and of 33 batches of 12
  const StepPlan plan{.global_batch = 12, .micro_batches_per_epoch = 33};
  const std::int64_t first_step = steps_done(plan, images_seen) + 1;
  EXPECT_THAT(repeated_images_message("seed 1 became 2", plan, first_step), IsEmpty());
}

TEST(RepeatedImages, CountMicroBatches) {
  const StepPlan plan{
      .global_batch = 16, .micro_batches_per_epoch = 5, .micro_batches_per_step = 2};
  EXPECT_THAT(repeated_images_message("seed 1 became 2", plan, 6), IsEmpty());
  EXPECT_THAT(repeated_images_message("seed 1 became 2", plan, 5), HasSubstr("have come before"));
}

}  // namespace
}  // namespace pfc
