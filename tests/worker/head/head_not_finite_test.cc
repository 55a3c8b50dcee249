// Tests that a non-finite number reaches the loss on every worker before any centre moves. Then the
// step's inputs can be examined unchanged.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "tests/worker/head/head_job.h"

namespace pfc::testing {
namespace {

constexpr std::int64_t kFiniteCheckClasses = 300;
constexpr std::int64_t kFiniteCheckDimension = 24;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class NonFiniteNumber : public OnHeadDevice<std::tuple<TestDevice, float>> {
 protected:
  [[nodiscard]] static float value() { return std::get<1>(GetParam()); }
  static HeadJob job() {
    HeadJob job;
    job.device = std::get<0>(GetParam());
    job.options = {.classes = kFiniteCheckClasses, .embedding_size = kFiniteCheckDimension};
    job.centres = random_matrix(kFiniteCheckClasses, kFiniteCheckDimension, 0.01, 7);
    job.micro_batches = {
        random_batch(20, 100, kFiniteCheckDimension, 8)};  // classes from 100 are negatives
    return job;
  }

  static void expect_untouched(const HeadJob& job, double filter) {
    HeadJob filtered = job;
    filtered.options.interclass_filtering_threshold = filter;
    for (const int workers : {1, 3}) {
      const HeadOutcome<float> outcome = run_head(filtered, workers);
      EXPECT_FALSE(std::isfinite(outcome.losses[0]));
      EXPECT_EQ(std::memcmp(outcome.centres.data(), job.centres.data(),
                            job.centres.size() * sizeof(float)),
                0);
      for (const float x : outcome.momentum) EXPECT_EQ(x, 0.f);
    }
  }
};

TEST_P(NonFiniteNumber, InAnEmbeddingChangesNoCentre) {
  HeadJob broken = job();
  broken.micro_batches[0].embeddings[5] = value();
  expect_untouched(broken, 0);
  expect_untouched(broken, 0.1);
}

TEST_P(NonFiniteNumber, InTheCentreOfALabelChangesNoCentre) {
  HeadJob broken = job();
  const std::int64_t label = broken.micro_batches[0].labels[4];
  broken.centres[static_cast<std::size_t>(label * kFiniteCheckDimension + 3)] = value();
  expect_untouched(broken, 0);
  expect_untouched(broken, 0.1);
}

TEST_P(NonFiniteNumber, InTheCentreOfANegativeChangesNoCentre) {
  HeadJob broken = job();
  broken.centres[static_cast<std::size_t>(211 * kFiniteCheckDimension)] = value();
  expect_untouched(broken, 0);
  expect_untouched(broken, 0.1);
}

INSTANTIATE_TEST_SUITE_P(Values, NonFiniteNumber,
                         ::testing::Combine(::testing::ValuesIn(head_devices()),
                                            ::testing::Values(kNan, kInfinity, -kInfinity)),
                         [](const auto& test) {
                           const float value = std::get<1>(test.param);
                           return std::get<0>(test.param).name + (std::isnan(value) ? "Nan"
                                                                  : value > 0       ? "Infinity"
                                                                              : "MinusInfinity");
                         });

class HeadOfMicroBatches : public OnHeadDevice<TestDevice> {};

TEST_P(HeadOfMicroBatches, ChangesNoCentreIfOneOfThemIsNotFinite) {
  HeadJob job;
  job.device = GetParam();
  job.options = {
      .classes = kFiniteCheckClasses, .embedding_size = kFiniteCheckDimension, .gradient_acc = 2};
  job.centres = random_matrix(kFiniteCheckClasses, kFiniteCheckDimension, 0.01, 7);
  job.micro_batches = {random_batch(20, 100, kFiniteCheckDimension, 8),
                       random_batch(20, 100, kFiniteCheckDimension, 9)};
  job.micro_batches[1].embeddings[0] = kNan;
  const HeadOutcome<float> outcome = run_head(job, 2);
  EXPECT_TRUE(std::isfinite(outcome.losses[0]));
  EXPECT_FALSE(std::isfinite(outcome.losses[1]));
  EXPECT_EQ(outcome.centres, job.centres);
}

INSTANTIATE_TEST_SUITE_P(Devices, HeadOfMicroBatches, ::testing::ValuesIn(head_devices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace pfc::testing
