// Tests a stop in the middle of a step that has several micro-batches. Session, inputs and training
// loop run together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <limits>

#include "tests/support/face_folder.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/sessions.h"
#include "worker/train_loop.h"

namespace pfc {
namespace {

constexpr int kStoppingWorkers = 2;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

class StopInAStep : public ::testing::Test {
 protected:
  StopInAStep() {
    testing::write_insightface({.folder = data_.path(), .identities = 9, .images_per_identity = 5});
    job_.network = "mbf";
    job_.embedding_size = 16;
    job_.batch_size = 4;  // 5 micro-batches per epoch
    job_.gradient_acc = 3;
    job_.num_epoch = 8;
    job_.max_steps = 4;
    job_.lr = 0.001;
    job_.ema_decay = 0.9;
    job_.sample_rate = SampleRate({{0, 0.5}, {1, 1.0}});  // in step 3, all classes are active
    job_.margin_update = {.start_epoch = 0, .end_epoch = 2};
    job_.num_workers = 1;
    job_.rec = {data_.path()};
    job_.device = DeviceChoice::kCpu;
  }

  /// Trains. Rank 1 is asked to stop from the micro-batch of this number on.
  TrainingEnd train_in(const std::filesystem::path& output, std::int64_t stop_at) {
    job_.output = output;
    std::atomic<int> stopped{0};
    std::atomic<std::int64_t> micro_batch{0};
    testing::with_sessions(
        job_, kStoppingWorkers,
        [&](int, TrainingSession& session) {
          if (train(session, nullptr) == TrainingEnd::kStopped) ++stopped;
        },
        [&](int rank) { return rank == 1 && micro_batch++ >= stop_at; });
    EXPECT_THAT(stopped.load(), ::testing::AnyOf(0, kStoppingWorkers)) << "expected all or none";
    return stopped == 0 ? TrainingEnd::kCompleted : TrainingEnd::kStopped;
  }

  TemporaryFolder data_, folder_;
  JobConfig job_;
};

TEST_F(StopInAStep, AbandonsTheStepAndResumesToTheSameBits) {
  ASSERT_EQ(train_in(folder_ / "whole", kNever), TrainingEnd::kCompleted);
  ASSERT_EQ(train_in(folder_ / "parts", 7), TrainingEnd::kStopped) << "in the middle of step 3";
  EXPECT_TRUE(std::filesystem::exists(folder_ / "parts/step-000000002"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "parts/step-000000003"));
  job_.resume = true;
  ASSERT_EQ(train_in(folder_ / "parts", kNever), TrainingEnd::kCompleted);
  for (const char* file :
       {"backbone.safetensors", "step-000000004/centres-00000-of-00002.safetensors",
        "step-000000004/backbone_optimizer.safetensors",
        "step-000000004/backbone_average.safetensors"}) {
    EXPECT_EQ(testing::read_file(folder_ / "whole" / file),
              testing::read_file(folder_ / "parts" / file))
        << file;
  }
}

TEST_F(StopInAStep, WritesNothingBeforeTheFirstStepIsComplete) {
  ASSERT_EQ(train_in(folder_ / "out", 1), TrainingEnd::kStopped);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/step-000000000"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/step-000000001"));
}

TEST_F(StopInAStep, CompletesAStepWhoseLastMicroBatchHasBegun) {
  ASSERT_EQ(train_in(folder_ / "out", 2), TrainingEnd::kStopped);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/step-000000001"));
}

}  // namespace
}  // namespace pfc
