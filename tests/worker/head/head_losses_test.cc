// Tests losses, and label smoothing: any number of workers and every device agree, and the gradient
// agrees with the loss's difference quotient. tests/reference/head_parity.py compares the losses
// with their papers' formulas in PyTorch.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/cpu/margin/tile_products.h"
#include "kernels/math/optimizer.h"
#include "tests/support/relative_error.h"
#include "tests/worker/head/head_job.h"

namespace pfc::testing {
namespace {

constexpr std::int64_t kLossDimension = 32, kLossClasses = 601, kLossSamples = 24;

struct LossCase {
  std::string name;
  Loss loss;
  TestDevice device;
  double label_smoothing = 0;
  std::vector<std::int64_t> head_classes = {};
  std::int64_t labels_per_image = 1;
  std::int64_t sub_centres = 1;
  std::int64_t classes = kLossClasses;
};

std::vector<LossCase> loss_cases() {
  const MagFace magface{.l_a = 0.6, .u_a = 1.6, .lambda_g = 5};
  const CurricularFace curricularface{.m = 1.2, .t_alpha = 0.5};
  std::vector<LossCase> cases;
  for (const TestDevice& device : head_devices()) {
    const std::vector<LossCase> losses = {
        {"AdaFace", AdaFace{.t_alpha = 0.5}, device},
        {"MagFace", magface, device},
        {"ElasticArcFace", ElasticArcFace{.std = 0.3}, device},
        {"ElasticCosFace", ElasticCosFace{.std = 0.3}, device},
        {"ElasticArcFacePlus", ElasticArcFace{.std = 0.3, .plus = true}, device},
        {"CurricularFace", curricularface, device},
        {"UniFace", UniFace{}, device},
        {"SubCentresOfUniFaceInSeparateHeads", UniFace{}, device, 0, {50, 100}, 1, 3, 150},
        {"Softmax", PlainSoftmax{}, device},
        {"SmoothedSoftmax", PlainSoftmax{}, device, 0.1},
        {"SmoothedMagFace", magface, device, 0.2},
        {"SmoothedCurricularFace", curricularface, device, 0.2},
        {"SmoothedSeparateHeads", CombinedMargin{}, device, 0.2, {200, kLossClasses - 200}},
        {"SeveralLabels", CombinedMargin{}, device, 0, {}, 3},
        {"SmoothedSeveralLabels", CombinedMargin{}, device, 0.2, {}, 3},
        {"SeveralLabelsOfSubCentres", CombinedMargin{}, device, 0.1, {}, 3, 3, 150},
        {"SubCentresOfCurricularFace", curricularface, device, 0, {}, 1, 3, 150},
        {"SmoothedSubCentresOfSeparateHeads", magface, device, 0.2, {50, 100}, 1, 3, 150}};
    for (LossCase each : losses) {
      each.name = device.name + each.name;
      cases.push_back(each);
    }
  }
  return cases;
}

class HeadLosses : public OnHeadDevice<LossCase> {
 protected:
  /// Lengths of embeddings are from about 0.4 to 2; some are near their centres.
  static HeadJob job(double rate, std::int64_t gradient_acc = 1) {
    HeadJob job;
    job.device = GetParam().device;
    job.options = {.classes = GetParam().classes,
                   .embedding_size = kLossDimension,
                   .sub_centres = GetParam().sub_centres,
                   .loss = GetParam().loss,
                   .scale = 16,
                   .margin_gradient = MarginGradient::kExact,
                   .label_smoothing = GetParam().label_smoothing,
                   .labels_per_image = GetParam().labels_per_image,
                   .sample_rate = rate,
                   .seed = 9,
                   .gradient_acc = gradient_acc,
                   .head_classes = GetParam().head_classes};
    job.lr = 0.01;
    job.loss_state = {.length_mean = 1.1, .length_deviation = 0.3, .target_cosine = 0.2};
    if (is_uniface(GetParam().loss)) {
      job.loss_state.threshold = 6.5;
      job.loss_state.threshold_momentum = 0.25;
    }
    const std::int64_t size = job.options.centre_size();
    job.centres = random_matrix(job.options.classes, size, 0.2, 8);
    for (std::uint64_t i = 0; i < 4; ++i) {
      job.micro_batches.push_back(
          random_batch(kLossSamples, job.options.classes, kLossDimension, 50 + i));
      place(job.centres, static_cast<std::size_t>(size), job.micro_batches.back());
      add_labels(job.micro_batches.back(), GetParam().labels_per_image, job.options.classes);
    }
    return job;
  }
  static void place(const std::vector<float>& centres, std::size_t size, MicroBatch& batch) {
    for (std::size_t i = 0; i < kLossSamples; ++i) {
      const auto near = static_cast<float>(i % 6) / 4;
      const float length = 0.4f + static_cast<float>(i % 5) * 0.3f;
      for (std::size_t k = 0; k < kLossDimension; ++k) {
        float& x = batch.embeddings[i * kLossDimension + k];
        const auto row = static_cast<std::size_t>(batch.labels[i]);
        const std::size_t centre = i % static_cast<std::size_t>(GetParam().sub_centres);
        x = length * (x + near * centres[row * size + centre * kLossDimension + k]);
      }
    }
  }
  static void expect_same(const HeadOutcome<float>& got, const HeadOutcome<float>& want) {
    for (std::size_t i = 0; i < want.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5 * want.losses[i]);
      EXPECT_LT(relative_error(got.d_embeddings[i], want.d_embeddings[i]), 1e-5);
    }
    EXPECT_LT(relative_error(got.centres, want.centres), 1e-5);
    EXPECT_LT(relative_error(got.momentum, want.momentum), 1e-5);
    for (const LossState& state : got.loss_states) {
      EXPECT_NEAR(state.length_mean, want.loss_states[0].length_mean, 1e-6);
      EXPECT_NEAR(state.length_deviation, want.loss_states[0].length_deviation, 1e-6);
      EXPECT_NEAR(state.target_cosine, want.loss_states[0].target_cosine, 1e-6);
      EXPECT_EQ(state.threshold, got.loss_states[0].threshold);  // the same on every worker
      EXPECT_NEAR(state.threshold.value_or(0), want.loss_states[0].threshold.value_or(0), 1e-6);
      EXPECT_NEAR(state.threshold_momentum, want.loss_states[0].threshold_momentum, 1e-5);
    }
  }
};

TEST_P(HeadLosses, AgreeWithOneCpuForAnyDeviceAndNumberOfWorkers) {
  for (const double rate : {1.0, 0.3}) {
    for (const std::int64_t gradient_acc : {1, 2}) {
      HeadJob one = job(rate, gradient_acc);
      one.device = cpu_head_device();
      const HeadOutcome<float> want = run_head(one, 1);
      for (const int workers : {1, 2, 3}) {
        SCOPED_TRACE(workers);
        expect_same(run_head(job(rate, gradient_acc), workers), want);
      }
    }
  }
}

TEST_P(HeadLosses, HaveTheSameBitsWhenCentresMoveLater) {
  HeadJob later = job(0.3);
  later.options.moves_later = true;
  const HeadOutcome<float> got = run_head(later, 2), want = run_head(job(0.3), 2);
  EXPECT_EQ(got.losses, want.losses);
  EXPECT_EQ(got.d_embeddings, want.d_embeddings);
  EXPECT_EQ(got.centres, want.centres);
  EXPECT_EQ(got.loss_states, want.loss_states);
}

// AdaFace takes the lengths as constants, so its embeddings move at right angles to themselves.
// CurricularFace takes t as a constant, and its loss jumps where another class becomes hard: with
// few classes that is rare.
TEST_P(HeadLosses, HaveAGradientThatAgreesWithDifferenceQuotients) {
  HeadJob at = job(1.0);
  at.micro_batches.resize(1);
  if (std::holds_alternative<CurricularFace>(at.options.loss)) {
    at.options.loss = CurricularFace{.m = 1.2, .t_alpha = 0};
    at.options.sample_rate = 0;
  }
  if (std::holds_alternative<AdaFace>(at.options.loss)) at.options.loss = AdaFace{.t_alpha = 0};
  const std::vector<float> gradient = run_head(at, 1).d_embeddings[0];
  const std::vector<float> x = at.micro_batches[0].embeddings;
  const std::vector<float> random = random_matrix(kLossSamples, kLossDimension, 1, 5);
  for (std::size_t i = 0; i < kLossSamples; i += 5) {
    const std::size_t begin = i * kLossDimension, end = begin + kLossDimension;
    double along = 0, squares = 0;
    for (std::size_t k = begin; k < end; ++k) {
      along += double{random[k]} * x[k];
      squares += double{x[k]} * x[k];
    }
    std::vector<double> direction;
    for (std::size_t k = begin; k < end; ++k) {
      const bool right_angle = std::holds_alternative<AdaFace>(at.options.loss);
      direction.push_back(random[k] - (right_angle ? along / squares * x[k] : 0));
    }
    const auto loss_at = [&](double distance) {
      HeadJob moved = at;
      for (std::size_t k = begin; k < end; ++k) {
        moved.micro_batches[0].embeddings[k] += static_cast<float>(distance * direction[k - begin]);
      }
      return run_head(moved, 1).losses[0];
    };
    double slope = 0, norm = 0;
    for (std::size_t k = begin; k < end; ++k) {
      slope += gradient[k] * direction[k - begin];
      norm += double{gradient[k]} * gradient[k];
    }
    constexpr double kStep = 2e-3;
    EXPECT_NEAR((loss_at(kStep) - loss_at(-kStep)) / (2 * kStep), slope,
                2e-2 * std::sqrt(norm) + 2e-3)
        << i;
  }
}

TEST_P(HeadLosses, AgreeRoughlyWithBf16) {
  HeadJob halves = job(0.3);
  halves.options.centre_precision = CentrePrecision::kBf16;
  halves.options.bf16_products = true;
  if (halves.device.make(1)->on_host() && !cpu_has_bfloat16()) {
    GTEST_SKIP() << "this CPU has no bf16 instructions (avx512_bf16)";
  }
  const HeadOutcome<float> got = run_head(halves, 2), want = run_head(job(0.3), 1);
  for (std::size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], 0.02 * want.losses[i]);
    EXPECT_LT(relative_error(got.d_embeddings[i], want.d_embeddings[i]), 0.05);
  }
  EXPECT_LT(relative_error(got.centres, want.centres), 0.01);
}

TEST_P(HeadLosses, KeepTheirStateUntilAnUpdateIsComplete) {
  HeadJob unfinished = job(1.0, 4);
  unfinished.micro_batches.resize(3);
  EXPECT_EQ(run_head(unfinished, 1).loss_states[0], unfinished.loss_state);
}

TEST_P(HeadLosses, DependOnTheirStateIfTheyHaveOne) {
  HeadJob other = job(1.0);
  other.loss_state = {.length_mean = 0.7, .length_deviation = 0.5, .target_cosine = 0.4};
  if (is_uniface(GetParam().loss)) other.loss_state.threshold = 7;
  const bool differs = run_head(other, 1).losses[0] != run_head(job(1.0), 1).losses[0];
  EXPECT_EQ(differs, std::holds_alternative<AdaFace>(GetParam().loss) ||
                         std::holds_alternative<CurricularFace>(GetParam().loss) ||
                         is_uniface(GetParam().loss));
}

class UniFaceLosses : public HeadLosses {};

TEST_P(UniFaceLosses, MoveTheThresholdByItsNumericalGradient) {
  HeadJob at = job(0.3, 2);
  at.micro_batches.resize(2);
  at.options.weight_decay = 0.02;
  const LossState after = run_head(at, 2).loss_states[0];
  const auto mean_loss_at = [&](double threshold) {
    HeadJob moved = at;
    moved.loss_state.threshold = threshold;
    const std::vector<double> losses = run_head(moved, 1).losses;
    return (losses[0] + losses[1]) / 2;
  };
  constexpr double kStep = 1e-3;
  const double slope = (mean_loss_at(6.5 + kStep) - mean_loss_at(6.5 - kStep)) / (2 * kStep);
  const double momentum = 0.9 * 0.25 + slope + 0.02 * 6.5;
  EXPECT_NEAR(after.threshold_momentum, momentum, 1e-3 * std::abs(slope));
  EXPECT_NEAR(*after.threshold, 6.5 - at.lr * after.threshold_momentum, 1e-6);
}

TEST_P(UniFaceLosses, StartTheThresholdFromTheExpectedActiveClasses) {
  HeadJob first = job(0.3);
  first.micro_batches.resize(1);
  first.loss_state.threshold.reset();
  first.lr = 0;
  const auto drawn = std::ceil(0.3 * static_cast<double>(GetParam().classes));
  EXPECT_NEAR(*run_head(first, 1).loss_states[0].threshold, std::log(10 * (drawn + kLossSamples)),
              1e-6);
}

TEST_P(UniFaceLosses, MoveTheThresholdLikeAWeightUnderAdamW) {
  HeadJob at = job(1.0);
  at.micro_batches.resize(1);
  at.loss_state.threshold_momentum = 0;
  const double gradient = run_head(at, 1).loss_states[0].threshold_momentum - 5e-4 * 6.5;  // SGD
  at.options.optimizer = OptimizerKind::kAdamW;
  at.options.weight_decay = 0.1;
  float b = 6.5f, m = 0, v = 0;
  adamw_update(adamw_options(at.lr, 0.1, 1), static_cast<float>(gradient), b, m, v);
  const LossState after = run_head(at, 1).loss_states[0];
  EXPECT_NEAR(*after.threshold, b, 1e-5);
  EXPECT_NEAR(after.threshold_second, v, 1e-3 * v);
}

TEST_P(UniFaceLosses, KeepTheThresholdOfAnUpdateThatIsLeftOut) {
  HeadJob skipped = job(1.0);
  skipped.micro_batches.resize(1);
  skipped.options.moves_later = true;
  skipped.updates_left_out = {1};
  EXPECT_EQ(run_head(skipped, 1).loss_states[0], skipped.loss_state);
}

TEST_P(HeadLosses, AreNotFiniteForAnEmbeddingThatIsNot) {
  for (const float bad : {NAN, INFINITY}) {
    HeadJob broken = job(0.3);
    broken.micro_batches.resize(1);
    broken.micro_batches[0].embeddings[3] = bad;
    for (const int workers : {1, 2}) {
      EXPECT_FALSE(std::isfinite(run_head(broken, workers).losses[0])) << bad;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Losses, HeadLosses, ::testing::ValuesIn(loss_cases()),
                         [](const auto& test) { return test.param.name; });

std::vector<LossCase> uniface_cases() {
  std::vector<LossCase> cases = loss_cases();
  std::erase_if(cases, [](const LossCase& each) { return !is_uniface(each.loss); });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Losses, UniFaceLosses, ::testing::ValuesIn(uniface_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace pfc::testing
