// Tests the comparison of a resumed job with the checkpoint's job.
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

TEST_F(OrderOfAResumedJob, IsTheSameIfOtherKeysDiffer) {
  now_.job["lr"] = 0.5;
  now_.job["read_buffer_mib"] = 128;  // does not affect a random order
  now_.micro_batch = 12;              // does not affect it either
  EXPECT_THAT(other(), IsEmpty());
}

TEST_F(OrderOfAResumedJob, DiffersIfItsKeysDiffer) {
  set("read", "sequential");
  now_.job.update({{"seed", 2}, {"shuffle", false}, {"read_buffer_mib", 128}});
  EXPECT_EQ(other(),
            "seed changed from 1 to 2, shuffle changed from true to false, read_buffer_mib changed "
            "from 64 to 128");
}

TEST_F(OrderOfAResumedJob, DiffersInSequentialReadingWithAnotherBatch) {
  set("read", "sequential");
  now_.micro_batch = 12;
  EXPECT_EQ(other(), "the batch of all workers changed from 8 to 12");
  set("shuffle", false);
  EXPECT_THAT(other(), IsEmpty());
}

TEST_F(OrderOfAResumedJob, ComputesTheMicroBatchFromTheGlobalBatch) {
  EXPECT_EQ(ordered_job({{"gradient_acc", 4}}, 32).micro_batch, 8);
  EXPECT_EQ(ordered_job(json::object(), 32).micro_batch, 0) << "unknown without gradient_acc";
}

TEST_F(OrderOfAResumedJob, IsTheSameForAnySeedWithoutShuffle) {
  set("shuffle", false);
  now_.job["seed"] = 2;
  EXPECT_THAT(other(), IsEmpty());
  now_.job["read"] = "sequential";
  EXPECT_THAT(other(), IsEmpty());
  set("rec", {"faces", "more"});
  EXPECT_EQ(other(), "seed changed from 1 to 2, read changed from \"random\" to \"sequential\"");
}

TEST_F(OrderOfAResumedJob, DiffersIfClassesAreBalanced) {
  set("balance_classes", false);
  now_.job["balance_classes"] = true;
  EXPECT_EQ(other(), "balance_classes changed from false to true");
  set("shuffle", false);
  EXPECT_EQ(other(), "balance_classes changed from false to true");
  before_.job["balance_classes"] = true;
  EXPECT_THAT(other(), IsEmpty());
}

TEST_F(OrderOfAResumedJob, IgnoresKeysThatAnOlderVersionDidNotWrite) {
  now_.job.update({{"seed", 2}, {"read", "sequential"}});
  EXPECT_THAT(other_order({.job = json::object()}, now_), IsEmpty());
}

StepPlan plan_from(const TrainedSoFar& start, int workers = 1, std::int64_t batch_size = 8) {
  JobConfig job;
  job.batch_size = batch_size;
  return plan_steps(job, workers, 40, start);
}

TEST(RepeatedImages, AreReportedOnlyInsideAnEpoch) {
  const StepPlan start = plan_from({});
  EXPECT_THAT(repeated_images_message("", plan_from(start.after(3))), IsEmpty());
  EXPECT_EQ(repeated_images_message("seed changed from 1 to 2", plan_from(start.after(8))),
            "; seed changed from 1 to 2: some of the remaining 16 images of epoch 1 repeat, and as "
            "many are skipped");
  EXPECT_THAT(repeated_images_message("seed changed from 1 to 2", plan_from(start.after(10))),
              IsEmpty())
      << "the resume is at the end of an epoch";
}

TEST(ResizedSteps, ReportTheNewLastStepAndLearningRate) {
  JobConfig job;
  job.batch_size = 4;
  job.num_epoch = 2;
  const StepPlan two = plan_steps(job, 2, 40);
  EXPECT_THAT(resized_message(job, two), IsEmpty());
  const StepPlan one = plan_steps(job, 1, 40, two.after(6));
  EXPECT_EQ(resized_message(job, one),
            "; each step now has 4 images (1 worker x batch_size 4 x gradient_acc 1) instead of 8 "
            "images (2 workers x batch_size 4 x gradient_acc 1), so the job ends after step 14; lr "
            "is multiplied by 0.5 (lr_scaling)");
  job.lr_scaling = LrScaling::kNone;
  EXPECT_THAT(resized_message(job, one), ::testing::EndsWith("ends after step 14"));
}

}  // namespace
}  // namespace pfc
