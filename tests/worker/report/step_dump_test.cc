#include "worker/report/step_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "common/error.h"
#include "kernels/make_ops.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thread_comm.h"
#include "tests/worker/checkpoint/checkpoint_world.h"
#include "tests/worker/trained.h"
#include "worker/head/step_file.h"

namespace pfc::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::int64_t kDimension = 8;

/// All workers find the same value that is not finite.
class StepDumpTest : public ::testing::Test {
 protected:
  /// Returns the messages of all ranks.
  std::vector<std::string> stop(int workers, const StepDump::Verdict& verdict) {
    std::vector<std::string> messages(static_cast<std::size_t>(workers));
    run_ranks(workers, [&](Comm& comm) {
      const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
      const auto head = make_head(*ops, comm, {.classes = 20, .embedding_size = kDimension});
      std::vector<float> embeddings(3 * kDimension, 1.f);
      const std::vector<std::int64_t> labels{4, 19, 4};
      StepDump dump(*ops, comm, *head, output_, job_);
      messages[static_cast<std::size_t>(comm.rank())] = message_of<InputError>([&] {
        dump.stop({.step = 12,
                   .update = 9,
                   .lr = 0.025,
                   .embeddings = Tensor(embeddings.data(), {3, kDimension}),
                   .labels = labels},
                  verdict);
      });
      parts_seen_[static_cast<std::size_t>(comm.rank())] = parts();
    });
    return messages;
  }

  [[nodiscard]] std::ptrdiff_t parts() const {
    std::error_code absent;
    const std::filesystem::directory_iterator folder(output_ / "not-finite-step-000000012", absent);
    return std::count_if(begin(folder), end(folder), [](const auto& entry) {
      return entry.path().extension() == ".safetensors";
    });
  }

  nlohmann::json job_{{"lr", 0.1}, {"seed", 7}};
  const TemporaryFolder folder_;
  const std::filesystem::path output_ = folder_ / "out";
  std::array<std::ptrdiff_t, 8> parts_seen_{};
};

TEST_F(StepDumpTest, GivesTheSameMessageWithQuantityAndFolderOnAllRanks) {
  const auto messages = stop(2, {.not_finite = "the loss", .loss = NAN});
  const std::string folder = (output_ / "not-finite-step-000000012").string();
  EXPECT_THAT(messages[0],
              AllOf(StartsWith("the loss is not finite at step 12 (learning rate 0.025)"),
                    HasSubstr("the head's inputs are in " + folder + ", for"),
                    HasSubstr("pfcctl replay head --in " + folder)));
  EXPECT_EQ(messages[0], messages[1]);
  for (const char* part : {"head-00000-of-00002.safetensors", "head-00001-of-00002.safetensors"}) {
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(folder) / part));
  }
}

TEST_F(StepDumpTest, AdvisesToLowerClipNormOnlyIfTheJobClips) {
  EXPECT_THAT(stop(1, {.not_finite = "the loss"})[0], HasSubstr("or lower clip_norm"));
  job_["clip_norm"] = 0;
  EXPECT_THAT(stop(1, {.not_finite = "the loss"})[0], HasSubstr("or set clip_norm, which is off"));
}

TEST_F(StepDumpTest, AdvisesToResumeOnlyIfThereIsACheckpoint) {
  EXPECT_THAT(stop(1, {.not_finite = "the loss"})[0],
              HasSubstr(", and start again: there is no checkpoint; "));
  const auto writer =
      make_checkpoint_writer({.output = output_, .job_id = "job", .keep = 3, .global_batch = 256});
  SmallWorker worker(0, 1);
  writer->begin(worker.state(), trained_with(7, 256), worker.job(), CheckpointMode::kCopy);
  writer->wait();
  writer->publish(7);
  for (const std::string& message : stop(2, {.not_finite = "the loss"})) {
    EXPECT_THAT(message, HasSubstr(", and set resume to true to continue from step 7; "));
  }
}

TEST_F(StepDumpTest, IsWrittenByAllWorkersBeforeAnyWorkerFails) {
  stop(3, {.not_finite = "the loss"});
  EXPECT_THAT(std::span(parts_seen_).first(3), ElementsAre(3, 3, 3));
}

TEST_F(StepDumpTest, ContainsTheStepOfAllWorkers) {
  std::vector<float> gradient(3 * kDimension, 2.f);
  stop(1, {.not_finite = "the gradient of the backbone",
           .loss = 1.5,
           .rows_moved = true,
           .d_embeddings = Tensor(gradient.data(), {3, kDimension})});
  const HeadStepInput in = read_head_step(std::vector{output_ / "not-finite-step-000000012"});
  EXPECT_EQ(in.step, 12);
  EXPECT_EQ(in.update, 9);
  EXPECT_EQ(in.micro_batches, 1);
  EXPECT_EQ(in.rows, 20);
  EXPECT_THAT(in.labels, ElementsAre(4, 19, 4));
  EXPECT_EQ(in.job["lr"], 0.025);
  EXPECT_EQ(in.job["seed"], 7);
  EXPECT_EQ(in.job["margin_list"], nlohmann::json({1, 0.5, 0})) << "expected the step's margin";
  EXPECT_TRUE(in.job["margin_update"].is_null());
  EXPECT_EQ(in.job["sample_rate"], 1);
  EXPECT_THAT(in.story, AllOf(HasSubstr("the gradient of the backbone"), HasSubstr("1.5"),
                              HasSubstr("after the update")));
  EXPECT_EQ(in.job_d_embeddings.pieces.at(0)[5], 2.f);
}

TEST_F(StepDumpTest, ReportsTheFirstErrorWhenTheFileCannotBeWritten) {
  const FileSizeLimit full(1000);
  const auto messages = stop(2, {.not_finite = "the loss", .loss = NAN});
  for (const std::string& message : messages) {
    EXPECT_THAT(message, AllOf(StartsWith("the loss is not finite at step 12"),
                               HasSubstr("could not be written"), HasSubstr("head-0000"),
                               Not(HasSubstr("pfcctl"))));
  }
  EXPECT_EQ(parts(), 0);
}

TEST_F(StepDumpTest, StillReportsTheLossThatIsNotFiniteWhenItsStepCannotBeWritten) {
  std::filesystem::copy_file("/proc/self/status", output_);
  EXPECT_THAT(stop(1, {.not_finite = "the loss"})[0],
              AllOf(StartsWith("the loss is not finite"), HasSubstr("could not be written")));
}

}  // namespace
}  // namespace pfc::testing
