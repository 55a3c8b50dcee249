// Tests the distillation of a teacher's logits against the formulas in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "kernels/cpu/margin/tile_products.h"
#include "tests/support/relative_error.h"
#include "tests/worker/head/head_job.h"

namespace pfc::testing {
namespace {

constexpr std::int64_t kStudentDimension = 32, kDistilledClasses = 701;

class HeadDistillation : public OnHeadDevice<TestDevice> {
 protected:
  static HeadJob job(double rate, std::int64_t updates, std::int64_t gradient_acc = 1,
                     const LogitDistillation& distillation = {
                         .weight = 3, .temperature = 4, .embedding_size = 24}) {
    HeadJob job;
    job.device = GetParam();
    job.options = {.classes = kDistilledClasses,
                   .embedding_size = kStudentDimension,
                   .scale = 32,
                   .sample_rate = rate,
                   .seed = 5,
                   .gradient_acc = gradient_acc};
    job.lr = 0.02;
    for (std::int64_t i = 0; i < updates * gradient_acc; ++i) {
      job.micro_batches.push_back(random_batch(20, kDistilledClasses, kStudentDimension,
                                               static_cast<std::uint64_t>(100 + i)));
    }
    job.centres = random_matrix(kDistilledClasses, kStudentDimension, 0.1, 13);
    add_teacher(job, distillation);
    return job;
  }

  template <typename Real>
  static void expect_near(const HeadOutcome<float>& got, const HeadOutcome<Real>& want,
                          double limit = 1e-4) {
    for (std::size_t i = 0; i < want.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], want.losses[i], limit * want.losses[i]) << i;
      EXPECT_NEAR(got.logits_losses[i], want.logits_losses[i], limit * want.logits_losses[i]) << i;
      EXPECT_LT(relative_error(got.d_embeddings[i], want.d_embeddings[i]), limit) << i;
    }
    EXPECT_LT(relative_error(got.centres, want.centres), limit);
    EXPECT_LT(relative_error(got.momentum, want.momentum), limit);
    EXPECT_LT(relative_error(got.second, want.second), 2 * limit);
  }
  static void expect_formulas(const HeadJob& job) {
    expect_near(run_head(job, 1, 2), reference_head(job));
  }
  static void expect_same_bits(const HeadOutcome<float>& got, const HeadOutcome<float>& want) {
    EXPECT_EQ(got.logits_losses, want.logits_losses);
    EXPECT_EQ(got.d_embeddings, want.d_embeddings);
    EXPECT_EQ(got.centres, want.centres);
    EXPECT_EQ(got.momentum, want.momentum);
  }
};

TEST_P(HeadDistillation, AgreesWithTheFormulasAtEverySampleRate) {
  for (const double rate : {1.0, 0.3, 0.0}) {
    SCOPED_TRACE(rate);
    expect_formulas(job(rate, 3));
  }
}

TEST_P(HeadDistillation, AgreesWithTheFormulasForMicroBatchesAndAdamW) {
  for (const double rate : {1.0, 0.3}) {
    SCOPED_TRACE(rate);
    HeadJob accumulated = job(rate, 2, 3);
    accumulated.options.optimizer = OptimizerKind::kAdamW;
    accumulated.lr = 0.001;
    expect_formulas(accumulated);
  }
}

TEST_P(HeadDistillation, AgreesWithTheFormulasForAllTemperaturesAndSizes) {
  for (const double temperature : {0.5, 1.0, 20.0}) {
    for (const std::int64_t size : {5, 8, 67}) {
      SCOPED_TRACE(temperature * static_cast<double>(size));
      expect_formulas(
          job(0.3, 1, 1, {.weight = 1, .temperature = temperature, .embedding_size = size}));
    }
  }
}

TEST_P(HeadDistillation, IsTheSameForAnyNumberOfWorkers) {
  for (const double rate : {1.0, 0.3, 0.0}) {
    const HeadJob j = job(rate, 2, 2);
    const HeadOutcome<float> one = run_head(j, 1);
    for (const int workers : {2, 3}) expect_near(run_head(j, workers), one, 1e-5);
  }
}

TEST_P(HeadDistillation, GivesTheSameBitsEveryTimeAndForAnyNumberOfKeptLogits) {
  HeadJob j = job(0.5, 3);
  const HeadOutcome<float> first = run_head(j, 1, 2);
  for (const double kept : {0.0, 0.05, 10.0}) {
    j.options.logits_memory = kept;
    expect_same_bits(run_head(j, 1, 2), first);
  }
  j.options.moves_later = true;
  expect_same_bits(run_head(j, 1, 2), first);
}

TEST_P(HeadDistillation, HasNoLossAndNoGradientIfTheTeacherIsTheNetwork) {
  HeadJob j = job(1, 1, 1, {.weight = 3, .temperature = 2, .embedding_size = kStudentDimension});
  j.centres = j.teacher_centres;
  j.micro_batches[0].teacher = j.micro_batches[0].embeddings;
  const HeadOutcome<float> got = run_head(j, 1);
  EXPECT_NEAR(got.logits_losses[0], 0, 1e-5);
  j.options.distillation.weight = 0;
  EXPECT_LT(relative_error(got.d_embeddings[0], run_head(j, 1).d_embeddings[0]), 1e-4);
}

// The gradient of the logits' loss does not depend on the other loss.
TEST_P(HeadDistillation, AddsTheSameGradientToEveryLoss) {
  const auto added = [](HeadJob j) {
    const HeadOutcome<float> with = run_head(j, 2);
    j.options.distillation.weight = 0;
    std::vector<float> difference = with.d_embeddings[0];
    const std::vector<float> without = run_head(j, 2).d_embeddings[0];
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= without[i];
    return difference;
  };
  HeadJob j = job(1, 1, 1, {.weight = 100, .temperature = 4, .embedding_size = 24});
  const std::vector<float> want = added(j);
  const std::vector<Loss> losses{AdaFace{}, MagFace{}, CurricularFace{}, UniFace{}};
  for (const Loss& loss : losses) {
    SCOPED_TRACE(loss.index());
    j.options.loss = loss;
    EXPECT_LT(relative_error(added(j), want), 1e-4);
  }
  j.options.loss = CombinedMargin{};
  j.options.label_smoothing = 0.1;
  j.options.interclass_filtering_threshold = 0.1;
  EXPECT_LT(relative_error(added(j), want), 1e-4);
  j.options.labels_per_image = 3;
  add_labels(j.micro_batches[0], 3, kDistilledClasses);
  EXPECT_LT(relative_error(added(j), want), 1e-4);
}

TEST_P(HeadDistillation, IsNearTheFormulasWithBf16Products) {
  if (GetParam().make(1)->on_host() && !cpu_has_bfloat16()) {
    GTEST_SKIP() << "this CPU has no bf16 instructions (avx512_bf16)";
  }
  HeadJob j = job(0.3, 2, 2);
  j.options.margin = {.m1 = 1, .m2 = 0, .m3 = 0.1};
  const HeadOutcome<double> want = reference_head(j);
  j.options.bf16_products = true;
  expect_near(run_head(j, 2), want, 1e-2);
}

TEST_P(HeadDistillation, KeepsCentresIfTheTeachersEmbeddingsAreNotFinite) {
  HeadJob j = job(1, 1);
  j.micro_batches[0].teacher[7] = std::numeric_limits<float>::quiet_NaN();
  const HeadOutcome<float> got = run_head(j, 2);
  EXPECT_TRUE(std::isnan(got.logits_losses[0]));
  EXPECT_TRUE(std::isfinite(got.losses[0]));
  EXPECT_EQ(got.centres, j.centres);
}

INSTANTIATE_TEST_SUITE_P(Devices, HeadDistillation, ::testing::ValuesIn(head_devices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace pfc::testing
