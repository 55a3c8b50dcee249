#include "worker/tensorboard/step_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <vector>

#include "data/images/decode.h"
#include "tests/support/face_folder.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/sessions.h"

namespace pfc {
namespace {

TEST(StepSampler, SelectsTheFirstStepAndEveryNthStep) {
  const StepSampler sampler(3, true);
  std::vector<std::int64_t> wanted;
  for (std::int64_t step = 1; step <= 9; ++step) {
    if (sampler.wants(step)) wanted.push_back(step);
  }
  EXPECT_EQ(wanted, (std::vector<std::int64_t>{1, 3, 6, 9}));
}

TEST(StepSampler, SelectsNoStepIfItIsOff) {
  for (std::int64_t step = 1; step <= 9; ++step) EXPECT_FALSE(StepSampler(0, true).wants(step));
}

constexpr std::int64_t kSampledBatch = 4, kSampledMicroBatches = 2, kSampledDimension = 16;
constexpr int kSampledWorkers = 2;

/// Two workers make one step of two micro-batches, without augmentation and in the order of the
/// data.
class SampledStep : public ::testing::Test {
 protected:
  SampledStep() {
    testing::write_insightface(faces_);
    job_.network = "mbf";
    job_.embedding_size = kSampledDimension;
    job_.batch_size = kSampledBatch;
    job_.gradient_acc = kSampledMicroBatches;
    job_.num_workers = 1;
    job_.shuffle = false;
    job_.augment.flip = false;
    job_.rec = {data_.path()};
    job_.output = output_.path();
    job_.device = DeviceChoice::kCpu;
    job_.histograms_every_steps = 5;
  }

  /// Returns rank 0's sample after step 1.
  StepSample sample() {
    StepSample found;
    testing::with_sessions(job_, kSampledWorkers, [&](int rank, TrainingSession& session) {
      Trainer& trainer = *session.trainer;
      const Tensor centres = session.trainer->head->state().centres;
      const std::vector<float> before = testing::on_host(*session.local.ops, centres);
      EXPECT_TRUE(train_step(trainer, *session.inputs).complete);
      StepSample sample = session.trainer->sample(session.comms.host());
      const std::lock_guard lock(mutex_);
      centres_.resize(static_cast<std::size_t>(job_classes() * kSampledDimension));
      std::ranges::copy(
          before, centres_.begin() + session.trainer->head->shard().begin * kSampledDimension);
      if (rank == 0) {
        embeddings_ = testing::on_host(*session.local.ops, session.trainer->all_embeddings);
        found = std::move(sample);
      } else {
        EXPECT_TRUE(sample.lengths.empty() && sample.images.empty());
      }
    });
    return found;
  }
  [[nodiscard]] std::int64_t job_classes() const { return faces_.identities; }

  const TemporaryFolder data_, output_;
  const testing::FaceFolder faces_{
      .folder = data_.path(), .identities = 9, .images_per_identity = 5};
  JobConfig job_;
  std::mutex mutex_;
  std::vector<float> embeddings_;  // [M * N, D]
  std::vector<float> centres_;     // [classes, D], before the step
};

TEST_F(SampledStep, ContainsTheLastMicroBatchOfAllWorkers) {
  const StepSample found = sample();
  constexpr std::size_t kSamples = kSampledBatch * kSampledWorkers;
  ASSERT_EQ(found.lengths.size(), kSamples);
  ASSERT_EQ(found.target_cosines.size(), kSamples);
  const std::size_t first = embeddings_.size() / kSampledDimension - kSamples;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const float* const x = embeddings_.data() + (first + i) * kSampledDimension;
    // The images of a step are consecutive, and so are those of each of its micro-batches.
    const auto label = static_cast<std::size_t>(faces_.label(static_cast<std::int64_t>(first + i)));
    const float* const centre = centres_.data() + label * kSampledDimension;
    double xx = 0, cc = 0, xc = 0;
    for (std::size_t k = 0; k < kSampledDimension; ++k) {
      const double a = static_cast<double>(x[k]), b = static_cast<double>(centre[k]);
      xx += a * a;
      cc += b * b;
      xc += a * b;
    }
    EXPECT_NEAR(found.lengths[i], std::sqrt(xx), 1e-6 * std::sqrt(xx)) << i;
    EXPECT_NEAR(found.target_cosines[i], xc / std::sqrt(xx * cc), 1e-6) << i;
  }
}

TEST_F(SampledStep, ContainsTheImagesOfItsOwnWorker) {
  const StepSample found = sample();
  ASSERT_EQ(found.images_shape, (Shape{kSampledBatch, 16, 16, 3}));
  const std::size_t bytes = 16 * 16 * 3;
  for (std::int64_t i = 0; i < kSampledBatch; ++i) {
    std::vector<std::uint8_t> rgb(bytes);
    const std::int64_t image = kSampledBatch * kSampledWorkers * (kSampledMicroBatches - 1) + i;
    ImageDecoder().decode(faces_.encoded(image), {.height = 16, .width = 16}, rgb);
    const auto begin = found.images.begin() + i * static_cast<std::int64_t>(bytes);
    EXPECT_TRUE(std::equal(rgb.begin(), rgb.end(), begin)) << i;
  }
}

TEST_F(SampledStep, HasAtMostEightImages) {
  job_.batch_size = 12;
  job_.gradient_acc = 1;
  EXPECT_EQ(sample().images_shape[0], 8);
}

}  // namespace
}  // namespace pfc
