#include "worker/start/job_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::SizeIs;

class JobCheck : public ::testing::Test {
 protected:
  std::string refusal() const {
    return message_of<InputError>([&] { check_job(planned_); });
  }

  PlannedJob planned_{.job = {.batch_size = 4, .num_epoch = 20, .num_classes = 100},
                      .world_size = 2,
                      .data = {.images = 805}};  // 100 micro-batches
};

TEST_F(JobCheck, AcceptsAJobThatTrains) {
  EXPECT_NO_THROW(check_job(planned_));
  EXPECT_THAT(job_warnings(planned_), IsEmpty());
}

TEST_F(JobCheck, RejectsHalfPrecisionOnlyOnACpu) {
  planned_.job.precision = Precision::kFp16;
  EXPECT_THAT(refusal(), HasSubstr("precision: found fp16, but a CPU computes in fp32 or bf16"));
  planned_.gpu = true;
  EXPECT_NO_THROW(check_job(planned_));
}

TEST_F(JobCheck, RejectsCentresOnDiskOnlyOnAGpu) {
  planned_.job.centre_storage = CentreStorage::kDisk;
  EXPECT_NO_THROW(check_job(planned_));
  planned_.gpu = true;
  EXPECT_THAT(refusal(), HasSubstr("centre_storage: found disk, expected device for a worker on a "
                                   "GPU"));
}

TEST_F(JobCheck, RejectsABufferWithoutRoomForTwoBatches) {
  planned_.job.read = ReadKind::kSequential;
  planned_.job.read_buffer_mib = 1;
  planned_.data.stored_bytes = 4000;
  EXPECT_NO_THROW(check_job(planned_));
  planned_.job.batch_size = 128;
  planned_.job.num_epoch = 1000;
  EXPECT_THAT(refusal(), HasSubstr("read_buffer_mib: 1.00 MiB hold windows of "));
}

TEST_F(JobCheck, RejectsBatchNormsOfOneSample) {
  planned_.job.batch_size = 1;
  EXPECT_THAT(refusal(), HasSubstr("batch_size: expected 2 or more"));
  planned_.job.sync_bn = true;
  EXPECT_NO_THROW(check_job(planned_));
  planned_.world_size = 1;
  EXPECT_THAT(refusal(), HasSubstr("batch_size: expected 2 or more"));
}

TEST_F(JobCheck, WarnsOfALearningRateOfZero) {
  planned_.job.lr = 0;
  EXPECT_THAT(job_warnings(planned_), SizeIs(1));
}

TEST_F(JobCheck, WarnsOfADistillationLossWithoutATeacher) {
  planned_.job.distill_embeddings = DistillEmbeddings::kMse;
  EXPECT_THAT(job_warnings(planned_),
              ElementsAre("distill_embeddings: found a value but no teacher: it has no effect"));
  planned_.job.distill_logits = 1;
  EXPECT_THAT(job_warnings(planned_), SizeIs(2));
  planned_.job.teacher = "t.pt";
  EXPECT_THAT(job_warnings(planned_), IsEmpty());
}

TEST_F(JobCheck, WarnsOfBatchNormsOfTwoSamples) {
  planned_.job.batch_size = 2;
  EXPECT_THAT(job_warnings(planned_), SizeIs(1));
  planned_.job.sync_bn = true;
  EXPECT_THAT(job_warnings(planned_), IsEmpty());
}

TEST_F(JobCheck, RejectsWorkersWithoutClasses) {
  planned_.job.num_classes = 2;
  EXPECT_NO_THROW(check_job(planned_));
  planned_.world_size = 3;
  EXPECT_EQ(refusal(), "3 workers would share 2 classes: start fewer workers");
}

TEST_F(JobCheck, RejectsASoftmaxOverOneClass) {
  planned_.world_size = 1;
  planned_.job.num_classes = 1;
  EXPECT_THAT(refusal(), HasSubstr("num_classes: found 1, expected 2 or more"));
}

TEST_F(JobCheck, RejectsAHeadOfOneClass) {
  planned_.job.rec = {"many", "one"};
  planned_.job.head_classes = {99, 1};
  EXPECT_NO_THROW(check_job(planned_)) << "one head has all classes";
  planned_.job.heads = Heads::kSeparate;
  EXPECT_THAT(refusal(), HasSubstr("heads: one has 1 class, expected 2 or more"));
}

TEST_F(JobCheck, RejectsLossesAndOrdersThatNeedOneLabelForEachImage) {
  planned_.job.rec = {"/data/list.tsv"};
  planned_.job.labels_per_image = 3;
  EXPECT_NO_THROW(check_job(planned_));
  planned_.job.loss = PlainSoftmax{};
  EXPECT_NO_THROW(check_job(planned_));
  planned_.job.loss = AdaFace{};
  EXPECT_THAT(refusal(),
              HasSubstr("loss: found \"adaface\", but images of /data/list.tsv have up to "
                        "3 labels; expected \"margin\" or \"softmax\""));
  planned_.job.loss = CombinedMargin{};
  planned_.job.balance_classes = true;
  EXPECT_THAT(refusal(), HasSubstr("balance_classes: found true, but images of /data/list.tsv"));
  planned_.job.labels_per_image = 1;
  EXPECT_NO_THROW(check_job(planned_));
}

TEST_F(JobCheck, RejectsABatchLargerThanTheData) {
  planned_.job.batch_size = 403;
  EXPECT_THAT(refusal(), HasSubstr("805 images, fewer than one batch of 806"));
  planned_.data.images = 0;
  EXPECT_NO_THROW(check_job(planned_)) << "the data are on another machine";
}

TEST_F(JobCheck, RejectsAStepLongerThanTheJob) {
  planned_.job.gradient_acc = 2000;
  EXPECT_NO_THROW(check_job(planned_));
  planned_.job.gradient_acc = 2001;
  EXPECT_THAT(refusal(), HasSubstr("gradient_acc: found 2001, but num_epoch 20 is 2000 "));
  planned_.job.gradient_acc = 1 << 20;
  EXPECT_THAT(refusal(), HasSubstr("gradient_acc: found 1048576"));
  planned_.job.gradient_acc = 1;
  planned_.job.num_epoch = 0.01;
  EXPECT_NO_THROW(check_job(planned_));
  planned_.job.num_epoch = 0.009;
  EXPECT_THAT(refusal(), HasSubstr("num_epoch: expected at least one step"));
}

TEST_F(JobCheck, ReturnsTheMaximumNumberOfWorkers) {
  EXPECT_EQ(most_workers(planned_), 100) << "limited by the classes";
  planned_.job.sample_unit = 8;
  EXPECT_EQ(most_workers(planned_), 13) << "limited by the blocks of classes";
  planned_.job.sample_unit = 1;
  planned_.job.num_classes = 1'000;
  EXPECT_EQ(most_workers(planned_), 201) << "limited by the batches";
  planned_.job.gradient_acc = 200;
  EXPECT_EQ(most_workers(planned_), 20) << "limited by gradient_acc";
  planned_.data.images = 0;
  planned_.job.num_classes = std::int64_t{1} << 40;
  EXPECT_EQ(most_workers(planned_), std::numeric_limits<int>::max());
}

TEST_F(JobCheck, RejectsMoreStepsThanRowsCanCount) {
  planned_.data.images = std::int64_t{1} << 40;
  planned_.job.num_epoch = 1e3;
  EXPECT_THAT(refusal(), HasSubstr("num_epoch: the job would have 137438953472000 steps, "
                                   "expected at most 1000000000"));
  planned_.job.max_steps = 5;
  EXPECT_NO_THROW(check_job(planned_));
}

}  // namespace
}  // namespace pfc
