// Tests how much bf16 may change a step, and that kept logits do not change its bits.
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

constexpr std::int64_t kPrecisionDimension = 64;

HeadJob job_of_steps(const TestDevice& device, std::int64_t classes, int steps) {
  HeadJob job;
  job.device = device;
  job.options = {
      .classes = classes, .embedding_size = kPrecisionDimension, .sample_rate = 0.5, .seed = 3};
  for (int i = 0; i < steps; ++i) {
    job.micro_batches.push_back(
        random_batch(24, classes, kPrecisionDimension, 20 + 7 * static_cast<std::uint64_t>(i)));
  }
  return job;
}

void expect_equal(const HeadOutcome<float>& got, const HeadOutcome<float>& want) {
  EXPECT_EQ(got.losses, want.losses);
  EXPECT_EQ(got.d_embeddings, want.d_embeddings);
  EXPECT_EQ(got.centres, want.centres);
  EXPECT_EQ(got.momentum, want.momentum);
}

std::string device_name(const ::testing::TestParamInfo<TestDevice>& test) {
  return test.param.name;
}

class KeptLogits : public OnHeadDevice<TestDevice> {};

TEST_P(KeptLogits, GiveTheSameBitsAsRecomputedLogits) {
  HeadJob j = job_of_steps(GetParam(), 3001, 3);
  j.options.interclass_filtering_threshold = 0.2;
  j.options.logits_memory = 0;
  const HeadOutcome<float> made_again = run_head(j, 1, 2);
  for (const double part : {0.05, 0.1, 10.0}) {  // two tiles of eight, four, all
    SCOPED_TRACE(part);
    j.options.logits_memory = part;
    expect_equal(run_head(j, 1, 2), made_again);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, KeptLogits, ::testing::ValuesIn(head_devices()), device_name);

class Bf16Products : public OnHeadDevice<TestDevice> {
 protected:
  void SetUp() override {
    OnHeadDevice::SetUp();
    if (IsSkipped()) return;
    if (GetParam().make(1)->on_host() && !cpu_has_bfloat16()) {
      GTEST_SKIP() << "this CPU has no bf16 instructions (avx512_bf16)";
    }
  }

  // Without decay, momentum after one step is the centres' gradient.
  [[nodiscard]] static HeadJob one_step(bool bf16, double logits_memory) {
    HeadJob j = job_of_steps(GetParam(), 1001, 1);
    j.options.sample_rate = 1;
    j.options.weight_decay = 0;
    j.options.logits_memory = logits_memory;
    j.options.bf16_products = bf16;
    j.centres = random_matrix(1001, kPrecisionDimension, 0.01, 12);
    return j;
  }
};

// A product of two bfloat16 numbers (8 bits each) has a mean relative error of 1.1e-3.
TEST_P(Bf16Products, DifferFromFloat32ProductsByTheirOperandsRounding) {
  for (const double logits_memory : {0.0, 10.0}) {
    const HeadOutcome<float> fp32 = run_head(one_step(false, logits_memory), 1, 2);
    const HeadOutcome<float> bf16 = run_head(one_step(true, logits_memory), 1, 2);
    EXPECT_GT(std::abs(bf16.losses[0] - fp32.losses[0]), 1e-6 * fp32.losses[0]);
    for (const double error : {relative_error(bf16.d_embeddings[0], fp32.d_embeddings[0]),
                               relative_error(bf16.momentum, fp32.momentum)}) {
      EXPECT_GT(error, 5e-4);
      EXPECT_LT(error, 1e-2);
    }
  }
}

TEST_P(Bf16Products, AgreeWithAReferenceThatRoundsTheirOperands) {
  for (const double logits_memory : {0.0, 10.0}) {
    const HeadOutcome<double> want = reference_head(one_step(true, logits_memory));
    const HeadOutcome<float> got = run_head(one_step(true, logits_memory), 1, 2);
    EXPECT_NEAR(got.losses[0], want.losses[0], 2e-7 * want.losses[0]);
    EXPECT_LT(relative_error(got.d_embeddings[0], want.d_embeddings[0]), 1e-4);
    // A CPU computes the part along a centre from the unrounded factors.
    EXPECT_LT(relative_error(got.momentum, want.momentum), 5e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Bf16Products, ::testing::ValuesIn(head_devices()), device_name);

class CentresKeptAs : public OnHeadDevice<std::tuple<TestDevice, CentrePrecision>> {
 protected:
  const TestDevice device_ = std::get<0>(GetParam());
  const CentrePrecision precision_ = std::get<1>(GetParam());
  /// Returns the relative error of rounding a number of usual size to the nearest: 2^-9 with 8
  /// significant bits, 2^-5 with 4. In int8 such a number has about 40 steps.
  [[nodiscard]] double rounding() const {
    if (precision_ == CentrePrecision::kFp8) return 1.0 / 32;
    return precision_ == CentrePrecision::kInt8 ? 1.0 / 80 : 1.0 / 512;
  }
};

TEST_P(CentresKeptAs, FollowTheFloat32CentresForManySteps) {
  HeadJob j = job_of_steps(device_, 301, 40);
  j.lr = 0.02;
  const HeadOutcome<float> want = run_head(j, 1, 2);
  j.options.centre_precision = precision_;
  const HeadOutcome<float> got = run_head(j, 1, 2);
  for (std::size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], 10 * rounding() * want.losses[i]) << i;
  }
  // Every step's rounding adds up to half a last bit of noise, and so does that of the momentum,
  // which moves the centre for many steps; noise grows as the root of their number.
  EXPECT_LT(relative_error(got.centres, want.centres), 3 * std::sqrt(40.0) * rounding());
}

// Without momentum there is no table of it. A momentum of nearly 0 has one.
TEST_P(CentresKeptAs, NeedNoMomentum) {
  HeadJob j = job_of_steps(device_, 301, 40);
  j.options.centre_precision = precision_;
  j.options.momentum = 1e-9;
  const HeadOutcome<float> want = run_head(j, 1, 2);
  j.options.momentum = 0;
  const HeadOutcome<float> got = run_head(j, 1, 2);
  for (std::size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], rounding() * want.losses[i]) << i;
  }
  EXPECT_LT(relative_error(got.centres, want.centres), rounding());
}

// Each step is a hundredth of a bfloat16's last bit: rounded to the nearest, no centre would move.
TEST_P(CentresKeptAs, KeepEvenTheSmallestStep) {
  HeadJob j = job_of_steps(device_, 64, 100);
  for (MicroBatch& batch : j.micro_batches) batch = j.micro_batches[0];
  j.options.sample_rate = 1;
  j.options.momentum = 0;
  j.centres = random_matrix(64, kPrecisionDimension, 1, 12);
  j.lr = 2e-3;
  // The movement from the first centres as this precision holds them: with a learning rate of 0.
  const auto moved = [&] {
    HeadJob still = j;
    still.lr = 0;
    std::vector<float> d = run_head(j, 1).centres;
    const std::vector<float> start = run_head(still, 1).centres;
    for (std::size_t i = 0; i < d.size(); ++i) d[i] -= start[i];
    return d;
  };
  for (float& x : j.centres) x = float_of(nearest_bfloat16(x));
  const std::vector<float> want = moved();
  j.options.centre_precision = precision_;
  const std::vector<float> got = moved();
  double along = 0, squares = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    along += double{got[i]} * double{want[i]};
    squares += double{want[i]} * double{want[i]};
  }
  EXPECT_GT(squares, 0);
  EXPECT_NEAR(along / squares, 1.0, 0.1);  // the same distance and direction on average
}

TEST_P(CentresKeptAs, AreRoundedTheSameByAnyNumberOfWorkers) {
  HeadJob j = job_of_steps(device_, 301, 2);
  j.options.centre_precision = precision_;
  const HeadOutcome<float> one = run_head(j, 1);
  for (const int workers : {2, 3}) {
    const HeadOutcome<float> many = run_head(j, workers);
    EXPECT_NEAR(many.losses[1], one.losses[1], 1e-4 * one.losses[1]);
    // Sums in another order differ in the last bit of a float32: one number in thousands then
    // rounds the other way.
    EXPECT_LT(relative_error(many.centres, one.centres), 5e-4);
    std::size_t different = 0;
    for (std::size_t i = 0; i < one.centres.size(); ++i) {
      different +=
          std::abs(many.centres[i] - one.centres[i]) > 1e-3f * std::abs(one.centres[i]) ? 1u : 0u;
    }
    EXPECT_LT(different, one.centres.size() / 200);
  }
}

TEST_P(CentresKeptAs, FollowTheFloat32CentresWithMicroBatches) {
  HeadJob j = job_of_steps(device_, 301, 4);
  j.options.gradient_acc = 4;
  const HeadOutcome<float> want = run_head(j, 1);
  j.options.centre_precision = precision_;
  EXPECT_LT(relative_error(run_head(j, 1).centres, want.centres), 5 * rounding());
}

// With sub-centres a class's row has several scales. Every precision represents the first centres
// exactly, so all have the same nearest centres and the same gradient.
TEST_P(CentresKeptAs, FollowTheFloat32CentresWithSubCentres) {
  HeadJob j = job_of_steps(device_, 100, 1);
  j.options.sub_centres = 3;
  j.centres = random_matrix(100, 3 * kPrecisionDimension, 1, 12);
  for (float& x : j.centres) x = std::clamp(std::round(4 * x), -15.f, 15.f) / 64;
  const HeadOutcome<float> want = run_head(j, 1);
  j.options.centre_precision = precision_;
  const HeadOutcome<float> got = run_head(j, 1);
  EXPECT_NEAR(got.losses[0], want.losses[0], 1e-6 * want.losses[0]);
  EXPECT_LT(relative_error(got.d_embeddings[0], want.d_embeddings[0]), 1e-5);
  EXPECT_LT(relative_error(got.centres, want.centres), 2 * rounding());
}

std::string precision_name(CentrePrecision precision) {
  constexpr const char* kNames[] = {"Fp32", "Bf16Momentum", "Bf16", "Int8", "Fp8"};
  return kNames[static_cast<int>(precision)];
}

INSTANTIATE_TEST_SUITE_P(
    Precisions, CentresKeptAs,
    ::testing::Combine(::testing::ValuesIn(head_devices()),
                       ::testing::Values(CentrePrecision::kBf16Momentum, CentrePrecision::kBf16,
                                         CentrePrecision::kInt8, CentrePrecision::kFp8)),
    [](const auto& test) {
      return std::get<0>(test.param).name + precision_name(std::get<1>(test.param));
    });

}  // namespace
}  // namespace pfc::testing
