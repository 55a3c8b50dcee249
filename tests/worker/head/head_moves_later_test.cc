// Tests centres that move in a separate call: the results have the same bits, or no centre moves.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/worker/head/head_job.h"

namespace pfc::testing {
namespace {

constexpr std::int64_t kMovesLaterDimension = 64;
constexpr std::int64_t kMovesLaterClasses = 1501;

class HeadMovesLater : public OnHeadDevice<std::tuple<TestDevice, OptimizerKind>> {
 protected:
  static HeadJob job(int micro_batches, std::int64_t gradient_acc = 1) {
    HeadJob job;
    job.device = std::get<0>(GetParam());
    job.options = {.classes = kMovesLaterClasses,
                   .embedding_size = kMovesLaterDimension,
                   .interclass_filtering_threshold = 0.2,
                   .sample_rate = 0.5,
                   .seed = 3,
                   .optimizer = std::get<1>(GetParam()),
                   .gradient_acc = gradient_acc,
                   .moves_later = true};
    job.lr = 0.01;
    for (int i = 0; i < micro_batches; ++i) {
      job.micro_batches.push_back(random_batch(24, kMovesLaterClasses, kMovesLaterDimension,
                                               20 + 7 * static_cast<std::uint64_t>(i)));
    }
    return job;
  }
  static void expect_same_centres(const HeadOutcome<float>& got, const HeadOutcome<float>& want) {
    EXPECT_EQ(got.centres, want.centres);
    EXPECT_EQ(got.momentum, want.momentum);
    EXPECT_EQ(got.second, want.second);
  }
};

TEST_P(HeadMovesLater, GivesTheSameBitsForAnyNumberOfKeptLogits) {
  for (const double kept : {0.0, 0.05, 10.0}) {
    SCOPED_TRACE(kept);
    HeadJob j = job(3);
    j.options.logits_memory = kept;
    const HeadOutcome<float> later = run_head(j, 1, 2);
    j.options.moves_later = false;
    const HeadOutcome<float> at_once = run_head(j, 1, 2);
    EXPECT_EQ(later.losses, at_once.losses);
    EXPECT_EQ(later.d_embeddings, at_once.d_embeddings);
    expect_same_centres(later, at_once);
  }
}

TEST_P(HeadMovesLater, KeepsCentresIfAnUpdateIsSkipped) {
  const HeadJob two = job(2);
  HeadJob three = job(3);
  three.updates_left_out = {3};
  for (const int workers : {1, 2}) {
    expect_same_centres(run_head(three, workers), run_head(two, workers));
  }
}

TEST_P(HeadMovesLater, KeepsCentresIfAnUpdateOfMicroBatchesIsSkipped) {
  const HeadJob two = job(2, 2);
  HeadJob six = job(6, 2);
  six.updates_left_out = {2, 3};
  expect_same_centres(run_head(six, 1), run_head(two, 1));
}

TEST_P(HeadMovesLater, ContinuesFromTheLastAppliedUpdate) {
  HeadJob j = job(3);
  j.updates_left_out = {2};
  HeadJob same = j;
  same.options.moves_later = false;
  // The second step's update is skipped, so the third step has the same centres as the second.
  const HeadOutcome<float> got = run_head(j, 1);
  const HeadOutcome<float> all = run_head(same, 1);
  EXPECT_EQ(got.losses[0], all.losses[0]);
  EXPECT_EQ(got.losses[1], all.losses[1]);
  EXPECT_NE(got.losses[2], all.losses[2]);
}

INSTANTIATE_TEST_SUITE_P(Devices, HeadMovesLater,
                         ::testing::Combine(::testing::ValuesIn(head_devices()),
                                            ::testing::Values(OptimizerKind::kSgd,
                                                              OptimizerKind::kAdamW)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name +
                                  (std::get<1>(test.param) == OptimizerKind::kSgd ? "Sgd"
                                                                                  : "AdamW");
                         });

}  // namespace
}  // namespace pfc::testing
