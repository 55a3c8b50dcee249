// Tests the cosines of the targets that the head returns after a step.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <tuple>
#include <vector>

#include "tests/support/staged_comm.h"
#include "tests/support/thread_comm.h"
#include "tests/worker/head/head_job.h"
#include "worker/head/row_copy.h"

namespace pfc::testing {
namespace {

constexpr std::int64_t kCosineSamples = 30, kCosineClasses = 101, kCosineDimension = 24;
constexpr float kNone = 9;

/// Returns the cosine of a sample with a centre, in float64.
double expected_cosine(const MicroBatch& batch, std::size_t sample,
                       const std::vector<float>& centres, std::int64_t label) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t k = 0; k < kCosineDimension; ++k) {
    const double a = batch.embeddings[sample * kCosineDimension + k];
    const double b = centres[static_cast<std::size_t>(label) * kCosineDimension + k];
    ab += a * b;
    aa += a * a;
    bb += b * b;
  }
  return ab / std::sqrt(aa * bb);
}

class HeadCosines : public OnHeadDevice<std::tuple<TestDevice, int>> {
 protected:
  /// Returns each worker's target_cosines() after one step.
  std::vector<std::vector<float>> told_of(const MicroBatch& batch,
                                          std::int64_t labels_per_image) const {
    std::vector<std::vector<float>> told(static_cast<std::size_t>(workers_));
    run_ranks(workers_, [&](Comm& comm) {
      const auto ops = device_.make(1);
      StagedComm staged(*ops, comm);
      const auto head = make_head(*ops, staged,
                                  {.classes = kCosineClasses,
                                   .embedding_size = kCosineDimension,
                                   .labels_per_image = labels_per_image,
                                   .sample_rate = 0.3});
      copy_rows_to_device(*ops, head->state().centres,
                          centres_.data() + head->shard().begin * kCosineDimension);
      head->state_changed();
      const auto memory = ops->allocate(batch.embeddings.size() * sizeof(float));
      const Tensor embeddings(memory->data(), DType::kFloat32, {kCosineSamples, kCosineDimension});
      ops->copy_to_device(embeddings, batch.embeddings.data());
      const ActiveCentres active = head->sample(batch.labels, 1);
      const HeadResult result =
          head->run({.all_embeddings = embeddings, .all_labels = batch.labels, .active = active});
      EXPECT_TRUE(result.moved);
      auto& cosines = told[static_cast<std::size_t>(comm.rank())];
      cosines.assign(kCosineSamples, kNone);
      head->target_cosines(cosines);
    });
    return told;
  }

  const TestDevice device_ = std::get<0>(GetParam());
  const int workers_ = std::get<1>(GetParam());
  const std::vector<float> centres_ = random_matrix(kCosineClasses, kCosineDimension, 0.3, 4);
  MicroBatch batch_ = random_batch(kCosineSamples, kCosineClasses, kCosineDimension, 3);
};

TEST_P(HeadCosines, UseCentresBeforeTheUpdateAndComeFromOneWorkerEach) {
  const auto told = told_of(batch_, 1);
  for (std::size_t i = 0; i < kCosineSamples; ++i) {
    int tellers = 0;
    for (const std::vector<float>& cosines : told) {
      if (cosines[i] == kNone) continue;
      ++tellers;
      EXPECT_NEAR(cosines[i], expected_cosine(batch_, i, centres_, batch_.labels[i]), 1e-7)
          << "sample " << i;
    }
    EXPECT_EQ(tellers, 1) << "sample " << i;
  }
}

TEST_P(HeadCosines, AverageSeveralLabels) {
  constexpr std::size_t kLabels = 3;
  add_labels(batch_, kLabels, kCosineClasses);
  const auto told = told_of(batch_, kLabels);
  for (std::size_t i = 0; i < kCosineSamples; ++i) {
    double sum = 0, want = 0, labels = 0;
    for (const std::vector<float>& cosines : told) sum += cosines[i] == kNone ? 0 : cosines[i];
    for (std::size_t k = i * kLabels; k < (i + 1) * kLabels; ++k) {
      if (batch_.labels[k] < 0) continue;
      want += expected_cosine(batch_, i, centres_, batch_.labels[k]);
      ++labels;
    }
    EXPECT_NEAR(sum, want / labels, 1e-7) << "sample " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, HeadCosines,
                         ::testing::Combine(::testing::ValuesIn(head_devices()),
                                            ::testing::Values(1, 3)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "s" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace pfc::testing
