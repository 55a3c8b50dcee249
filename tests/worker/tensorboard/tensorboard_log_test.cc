#include "worker/tensorboard/tensorboard_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <string>

#include "data/images/decode.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/report/events.h"
#include "tests/worker/tensorboard/read_events.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

class TensorBoard : public ::testing::Test {
 protected:
  [[nodiscard]] TensorBoardOptions options(std::int64_t resumed_steps = 0) const {
    return {.folder = folder_.path(), .first_step = resumed_steps + 1};
  }
  [[nodiscard]] fs::path newest() const {
    fs::path last;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      last = std::max(last, entry.path());
    }
    return last;
  }
  [[nodiscard]] std::map<std::string, tensorboard::Summary::Value> values(std::int64_t step) const {
    return testing::values_of(testing::read_events(newest()), step);
  }
  [[nodiscard]] std::map<std::string, float> scalars(std::int64_t step) const {
    std::map<std::string, float> numbers;
    for (const auto& [tag, value] : values(step)) numbers[tag] = value.simple_value();
    return numbers;
  }

  const TemporaryFolder folder_;
};

constexpr LogWindow kWindow{
    .samples_per_second = 128, .loss = 2.5, .lr = 0.1, .epoch = 3, .step = 20, .loss_scale = 1024};

TEST_F(TensorBoard, LineContainsMeansOverItsSteps) {
  TensorBoardLog log(options());
  StepRecord first = record(19), second = record(20);
  first.stats.gradient_norm = 1;
  second.stats.gradient_norm = 4;
  second.stats.data_wait_seconds = 0.25;
  second.step_seconds = 1.5;
  log.step(first);
  log.step(second);
  log.line(kWindow);
  EXPECT_EQ(scalars(20), (std::map<std::string, float>{{"train/loss", 2.5f},
                                                       {"train/learning_rate", 0.1f},
                                                       {"train/epoch", 3},
                                                       {"train/gradient_norm", 2.5f},
                                                       {"train/loss_scale", 1024},
                                                       {"speed/samples_per_second", 128},
                                                       {"speed/step_seconds", 1},
                                                       {"speed/data_wait_seconds", 0.125f},
                                                       {"phases/forward", 0.3f},
                                                       {"phases/head", 0.05f}}));
}

TEST_F(TensorBoard, LineIgnoresStepsBeforeThePreviousLine) {
  TensorBoardLog log(options());
  StepRecord slow = record(10);
  slow.step_seconds = 60;
  log.step(slow);
  log.line(kWindow);
  log.step(record(30));
  LogWindow next = kWindow;
  next.step = 30;
  log.line(next);
  EXPECT_FLOAT_EQ(scalars(30).at("speed/step_seconds"), 0.5f);
}

TEST_F(TensorBoard, IgnoresAGradientNormThatIsNotFinite) {
  TensorBoardLog log(options());
  StepRecord overflowed = record(19);
  overflowed.stats.gradient_norm = std::numeric_limits<double>::infinity();
  log.step(overflowed);
  log.line(kWindow);
  EXPECT_FALSE(scalars(20).contains("train/gradient_norm"));
}

TEST_F(TensorBoard, EvaluationHasATagForEachSet) {
  TensorBoardLog log(options());
  log.evaluation(
      20, VerificationResult{.name = "lfw", .accuracy = 0.99, .deviation = 0.01, .threshold = 1.5});
  log.evaluation(20, VerificationResult{.name = "cfp_fp", .accuracy = 0.9});
  const auto found = scalars(20);
  EXPECT_EQ(found.at("verification/lfw"), 0.99f);
  EXPECT_EQ(found.at("verification_deviation/lfw"), 0.01f);
  EXPECT_EQ(found.at("verification_threshold/lfw"), 1.5f);
  EXPECT_EQ(found.at("verification/cfp_fp"), 0.9f);
}

TEST_F(TensorBoard, SampleContainsHistogramsTheirMeansAndImages) {
  StepSample sample{.lengths = {1, 2, 6}, .target_cosines = {-0.5f, 0.25f, 0.25f}};
  sample.images_shape = {2, 16, 24, 3};
  sample.images.assign(2UL * 16 * 24 * 3, 200);
  std::fill_n(sample.images.begin(), 16 * 24 * 3, std::uint8_t{40});
  TensorBoardLog log(options());
  log.sample(1, sample);
  const auto found = values(1);
  EXPECT_FLOAT_EQ(found.at("embeddings/length_mean").simple_value(), 3);
  EXPECT_FLOAT_EQ(found.at("embeddings/target_cosine_mean").simple_value(), 0);
  EXPECT_EQ(found.at("embeddings/length").tensor().double_val_size(), 90);
  EXPECT_EQ(found.at("embeddings/target_cosine").tensor().double_val(89), 2);
  const auto& images = found.at("batch/images").tensor().string_val();
  ASSERT_EQ(images.size(), 4);
  EXPECT_EQ(images[0], "24");
  EXPECT_EQ(images[1], "16");
  for (int i = 0; i < 2; ++i) {
    std::vector<std::uint8_t> rgb(16UL * 24 * 3);
    ImageDecoder().decode(std::as_bytes(std::span(images[2 + i])), {.height = 16, .width = 24},
                          rgb);
    for (const std::uint8_t colour : rgb) EXPECT_NEAR(colour, i == 0 ? 40 : 200, 2);
  }
}

TEST_F(TensorBoard, ResumedJobStartsAnotherFileAndRemovesRepeatedSteps) {
  {
    TensorBoardLog log(options());
    for (const std::int64_t step : {10, 20, 30})
      log.evaluation(step, VerificationResult{.name = "lfw"});
  }
  const fs::path first = newest();
  TensorBoardLog log(options(20));
  log.evaluation(30, VerificationResult{.name = "lfw"});
  EXPECT_EQ(testing::steps_of(first), (std::vector<std::int64_t>{10, 20}));
  EXPECT_NE(newest(), first);
  EXPECT_EQ(testing::steps_of(newest()), (std::vector<std::int64_t>{30}));
  EXPECT_EQ(testing::read_events(newest())[1].step(), 21);
}

TEST_F(TensorBoard, NamesTheFileThatCannotBeWritten) {
  TensorBoardLog log(options());
  const FileSizeLimit full(fs::file_size(newest()) + 10);
  EXPECT_THAT(testing::message_of<StorageError>(
                  [&] { log.evaluation(1, VerificationResult{.name = "lfw"}); }),
              ::testing::StartsWith(newest().string() + ": cannot write: "));
}

}  // namespace
}  // namespace pfc
