// Tests sizes that are not multiples of a pack, warp, block or tile, and rows of every kind,
// against the float64 reference and the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "kernels/cpu/margin/tile_products.h"
#include "kernels/math/bfloat16.h"
#include "tests/support/relative_error.h"
#include "tests/worker/head/head_job.h"

namespace pfc::testing {
namespace {

struct Sizes {
  std::int64_t samples, dimension, classes;
};
// Samples: fewer than a pack; a tail after 128 and after 256 of them. Dimensions: fewer than a
// pack; with tails after a pack and after a warp's share; more than a warp holds.
constexpr Sizes kSizes[] = {{1, 3, 2},     {7, 20, 131},  {130, 33, 259},
                            {261, 40, 70}, {9, 521, 300}, {5, 776, 33}};

class HeadOfAnySize : public OnHeadDevice<std::tuple<TestDevice, Sizes>> {
 protected:
  // Without decay, momentum after one step is the centres' gradient.
  static HeadJob job() {
    const auto& [device, size] = GetParam();
    HeadJob job;
    job.device = device;
    job.options = {.classes = size.classes,
                   .embedding_size = size.dimension,
                   .scale = 16,
                   .seed = 9,
                   .weight_decay = 0};
    job.micro_batches = {random_batch(size.samples, size.classes, size.dimension, 11)};
    job.centres = random_matrix(size.classes, size.dimension, 0.01, 12);
    return job;
  }
  static bool bf16_products_run() {
    return cpu_has_bfloat16() || !std::get<0>(GetParam()).make(1)->on_host();
  }
};

TEST_P(HeadOfAnySize, AgreesWithTheReference) {
  for (const double rate : {1.0, 0.4}) {
    HeadJob j = job();
    j.options.sample_rate = rate;
    const HeadOutcome<double> want = reference_head(j);
    const HeadOutcome<float> got = run_head(j, 1, 2);
    const std::int64_t d = j.options.embedding_size;
    EXPECT_NEAR(got.losses[0], want.losses[0], 1e-6 * want.losses[0]);
    EXPECT_LT(worst_row_error(got.d_embeddings[0], want.d_embeddings[0], d), 1e-4);
    EXPECT_LT(worst_row_error(got.momentum, want.momentum, d), 1e-4);
    EXPECT_LT(worst_row_error(got.centres, want.centres, d), 1e-4);
  }
}

TEST_P(HeadOfAnySize, AgreesWithTheReferenceInBf16) {
  if (!bf16_products_run()) GTEST_SKIP() << "this CPU has no bf16 instructions (avx512_bf16)";
  for (const double rate : {1.0, 0.4}) {
    HeadJob j = job();
    j.options.sample_rate = rate;
    for (float& x : j.centres) x = float_of(nearest_bfloat16(x));
    const HeadOutcome<double> want = reference_head(j);
    j.options.bf16_products = true;
    j.options.centre_precision = CentrePrecision::kBf16;
    const HeadOutcome<float> got = run_head(j, 1, 2);
    EXPECT_NEAR(got.losses[0], want.losses[0], 1e-2 * want.losses[0]);
    EXPECT_LT(relative_error(got.d_embeddings[0], want.d_embeddings[0]), 1e-2);
    EXPECT_LT(relative_error(got.momentum, want.momentum), 1e-2);
    EXPECT_LT(relative_error(got.centres, want.centres), 1e-2);
  }
}

TEST_P(HeadOfAnySize, AgreesWithTheCpuForEveryOptimizerAndPrecision) {
  for (const OptimizerKind optimizer : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
    for (const CentrePrecision precision :
         {CentrePrecision::kFp32, CentrePrecision::kBf16Momentum, CentrePrecision::kBf16,
          CentrePrecision::kInt8, CentrePrecision::kFp8}) {
      if (is_one_byte(precision) && optimizer == OptimizerKind::kAdamW) continue;
      HeadJob j = job();
      j.options.optimizer = optimizer;
      j.options.weight_decay = 0.1;
      j.options.centre_precision = precision;
      const HeadOutcome<float> got = run_head(j, 1);
      j.device = cpu_head_device();
      const HeadOutcome<float> want = run_head(j, 1);
      // The random bits for rounding are the same. Only a number whose float32 differs in its
      // last bit may sometimes round the other way, by a step of the precision.
      const double tolerance = precision == CentrePrecision::kFp32 ? 1e-5 : 1e-3;
      // AdamW's first step is the sign of the gradient, whose last bits decide where it is tiny.
      const bool sign = optimizer == OptimizerKind::kAdamW;
      EXPECT_LT(relative_error(got.centres, want.centres), sign ? 1e-3 : tolerance);
      EXPECT_LT(relative_error(got.momentum, want.momentum), tolerance);
      EXPECT_LT(relative_error(got.second, want.second), tolerance);
    }
  }
}

// With many samples a thread of a GPU computes several groups of rows. With many labels each has
// targets.
TEST_P(HeadOfAnySize, AgreesWithTheCpuForSeveralLabels) {
  HeadJob j = job();
  const std::int64_t labels = std::min<std::int64_t>(j.options.classes, 16);
  j.options.labels_per_image = labels;
  add_labels(j.micro_batches[0], labels, j.options.classes);
  const HeadOutcome<float> got = run_head(j, 1);
  j.device = cpu_head_device();
  const HeadOutcome<float> want = run_head(j, 1);
  EXPECT_NEAR(got.losses[0], want.losses[0], 1e-6 * want.losses[0]);
  EXPECT_LT(relative_error(got.d_embeddings[0], want.d_embeddings[0]), 1e-5);
  EXPECT_LT(relative_error(got.momentum, want.momentum), 1e-5);
}

TEST_P(HeadOfAnySize, SumsMicroBatchesOfSampledRows) {
  HeadJob j = job();
  const auto& size = std::get<1>(GetParam());
  j.options.sample_rate = 0.4;
  j.options.gradient_acc = 2;
  j.micro_batches.push_back(random_batch(size.samples, size.classes, size.dimension, 13));
  const HeadOutcome<double> want = reference_head(j);
  const HeadOutcome<float> got = run_head(j, 1, 2);
  EXPECT_LT(relative_error(got.momentum, want.momentum), 1e-4);
  EXPECT_LT(relative_error(got.centres, want.centres), 1e-5);
}

std::string device_and_sizes_name(
    const ::testing::TestParamInfo<std::tuple<TestDevice, Sizes>>& test) {
  const auto& [device, size] = test.param;
  return device.name + "N" + std::to_string(size.samples) + "D" + std::to_string(size.dimension) +
         "C" + std::to_string(size.classes);
}

TEST_P(HeadOfAnySize, GivesTheSameBitsAfterItsStateWasRead) {
  for (const double rate : {1.0, 0.4}) {
    HeadJob j = job();
    j.options.sample_rate = rate;
    for (int i = 0; i < 3; ++i) j.micro_batches.push_back(j.micro_batches.front());
    const HeadOutcome<float> whole = run_head(j, 1, 2);
    j.resumes = true;
    const HeadOutcome<float> parts = run_head(j, 1, 2);
    EXPECT_EQ(parts.losses, whole.losses);
    EXPECT_EQ(parts.d_embeddings, whole.d_embeddings);
    EXPECT_EQ(parts.centres, whole.centres);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, HeadOfAnySize,
                         ::testing::Combine(::testing::ValuesIn(head_devices()),
                                            ::testing::ValuesIn(kSizes)),
                         device_and_sizes_name);

}  // namespace
}  // namespace pfc::testing
