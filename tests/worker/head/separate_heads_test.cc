// Tests several heads on one backbone: each softmax is over the classes of its own data set.
#include "worker/head/separate_heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/relative_error.h"
#include "tests/worker/head/head_job.h"

namespace pfc::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kSeparateHeadsDimension = 40;
// The boundaries are inside tiles and inside the shards of several workers.
const std::vector<std::int64_t> kHeads{300, 1, 520, 190};
constexpr std::int64_t kSeparateHeadsClasses = 1011;

TEST(SeparateHeads, GiveEachSampleTheActiveClassesOfItsHead) {
  SeparateHeads heads(std::vector<std::int64_t>{10, 5, 20});
  const std::vector<std::int64_t> active{2, 9, 10, 15, 16, 34};
  EXPECT_THAT(
      heads.ranges(active, std::vector<std::int64_t>{14, 0, 34, 10}),
      ElementsAre(ActiveRange{2, 3}, ActiveRange{0, 2}, ActiveRange{3, 6}, ActiveRange{2, 3}));
}

TEST(SeparateHeads, OneHeadHasNoRanges) {
  SeparateHeads heads(std::vector<std::int64_t>{10});
  EXPECT_THAT(heads.ranges(std::vector<std::int64_t>{2}, std::vector<std::int64_t>{2}), IsEmpty());
}

HeadJob separate_heads_job(const TestDevice& device, double rate,
                           OptimizerKind optimizer = OptimizerKind::kSgd) {
  HeadJob job;
  job.options = {.classes = kSeparateHeadsClasses,
                 .embedding_size = kSeparateHeadsDimension,
                 .scale = 32,
                 .sample_rate = rate,
                 .seed = 9,
                 .optimizer = optimizer,
                 .head_classes = kHeads};
  job.lr = 0.02;
  for (std::uint64_t i = 0; i < 3; ++i) {
    job.micro_batches.push_back(
        random_batch(30, kSeparateHeadsClasses, kSeparateHeadsDimension, 70 + i));
    job.micro_batches.back().labels[3] = 300;  // the head of one class
  }
  job.centres = random_matrix(kSeparateHeadsClasses, kSeparateHeadsDimension, 0.1, 14);
  job.device = device;
  return job;
}

class SeparateHeadsOn : public OnHeadDevice<std::tuple<TestDevice, int>> {
 protected:
  const TestDevice device_ = std::get<0>(GetParam());
  const int workers_ = std::get<1>(GetParam());

  void expect_reference(const HeadJob& job) const {
    const HeadOutcome<double> want = reference_head(job);
    const HeadOutcome<float> got = run_head(job, workers_, 2);
    for (std::size_t i = 0; i < want.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], want.losses[i], 2e-6 * want.losses[i]);
      EXPECT_LT(worst_row_error(got.d_embeddings[i], want.d_embeddings[i], kSeparateHeadsDimension),
                1e-4);
    }
    EXPECT_LT(worst_row_error(got.centres, want.centres, kSeparateHeadsDimension), 1e-4);
  }
};

TEST_P(SeparateHeadsOn, AgreeWithTheReferenceAtEverySampleRate) {
  for (const double rate : {1.0, 0.2, 0.0}) {
    SCOPED_TRACE(rate);
    expect_reference(separate_heads_job(device_, rate));
  }
}

TEST_P(SeparateHeadsOn, AgreeWithTheReferenceWithFilterMicroBatchesAndAdamW) {
  HeadJob filtered = separate_heads_job(device_, 0.5, OptimizerKind::kAdamW);
  filtered.lr = 0.001;
  filtered.options.interclass_filtering_threshold = 0.1;
  filtered.options.gradient_acc = 3;
  expect_reference(filtered);
}

// The cosines to a sample's own head are near -1, those to the other heads near 1. At a scale of
// 200, exp() of the omitted logits overflows float.
TEST_P(SeparateHeadsOn, AgreeWithTheReferenceIfCosinesOfTheOwnHeadAreNegative) {
  HeadJob opposed = separate_heads_job(device_, 1.0);
  opposed.options.scale = 200;
  opposed.options.margin = {.m1 = 1, .m2 = 0, .m3 = 0.1};
  const auto in_first_head = [](std::int64_t c) { return c < kHeads[0]; };
  const auto shift = [](float* row, float by) {
    for (std::int64_t i = 0; i < kSeparateHeadsDimension; ++i) row[i] += by;
  };
  for (std::int64_t c = 0; c < kSeparateHeadsClasses; ++c) {
    shift(opposed.centres.data() + c * kSeparateHeadsDimension, in_first_head(c) ? 0.5f : -0.5f);
  }
  for (MicroBatch& batch : opposed.micro_batches) {
    for (std::size_t i = 0; i < batch.labels.size(); ++i) {
      shift(batch.embeddings.data() + static_cast<std::int64_t>(i) * kSeparateHeadsDimension,
            in_first_head(batch.labels[i]) ? -1.f : 1.f);
    }
  }
  expect_reference(opposed);
}

TEST_P(SeparateHeadsOn, AgreeWithASingleHeadForOneDataSet) {
  HeadJob both = separate_heads_job(device_, 1.0);
  for (MicroBatch& batch : both.micro_batches) {
    for (std::int64_t& label : batch.labels) label %= kHeads[0];
  }
  HeadJob alone = both;
  alone.options.classes = kHeads[0];
  alone.options.head_classes = {};
  alone.centres.resize(static_cast<std::size_t>(kHeads[0] * kSeparateHeadsDimension));
  const HeadOutcome<float> got = run_head(both, workers_, 2);
  const HeadOutcome<float> want = run_head(alone, workers_, 2);
  for (std::size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5 * want.losses[i]);
    EXPECT_LT(relative_error(got.d_embeddings[i], want.d_embeddings[i]), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, SeparateHeadsOn,
                         ::testing::Combine(::testing::ValuesIn(head_devices()),
                                            ::testing::Values(1, 3)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "s" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace pfc::testing
