// Compares one worker with the float64 reference: the loss to 1e-6, each row's gradient to 1e-4.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/relative_error.h"
#include "tests/worker/head/head_job.h"

namespace pfc::testing {
namespace {

constexpr std::int64_t kReferenceDimension = 48;

struct Case {
  std::string name;
  Margin margin;
  MarginGradient gradient;
  double threshold;
  TestDevice device;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

std::vector<Case> cases_on(const TestDevice& device) {
  const std::vector<std::pair<std::string, Margin>> margins = {{"ArcFace", {1, 0.5, 0}},
                                                               {"CosFace", {1, 0, 0.4}},
                                                               {"Combined", {1, 0.3, 0.2}},
                                                               {"SphereFace", {1.35, 0, 0}},
                                                               // Above pi for most samples.
                                                               {"DoubleAngle", {2, 0.1, 0.1}},
                                                               {"NoMargin", {1, 0, 0}}};
  std::vector<Case> cases;
  for (const auto& [margin_name, margin] : margins) {
    for (const double threshold : {0.0, 0.1}) {
      const std::string name = device.name + margin_name;
      const std::string suffix = threshold > 0 ? "Filtered" : "";
      cases.push_back({name + suffix, margin, MarginGradient::kExact, threshold, device});
      cases.push_back({name + "StraightThrough" + suffix, margin, MarginGradient::kStraightThrough,
                       threshold, device});
    }
  }
  return cases;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const TestDevice& device : head_devices())
    std::ranges::copy(cases_on(device), std::back_inserter(cases));
  return cases;
}

class HeadAgainstReference : public OnHeadDevice<Case> {
 protected:
  // Without decay, momentum after one step is the centres' gradient.
  [[nodiscard]] HeadJob job(std::int64_t samples, std::int64_t classes) const {
    HeadJob job;
    job.options = {.classes = classes,
                   .embedding_size = kReferenceDimension,
                   .margin = GetParam().margin,
                   .margin_gradient = GetParam().gradient,
                   .interclass_filtering_threshold = GetParam().threshold,
                   .weight_decay = 0};
    job.micro_batches = {random_batch(samples, classes, kReferenceDimension, 11)};
    job.centres = random_matrix(classes, kReferenceDimension, 0.01, 12);
    job.device = GetParam().device;
    return job;
  }

  static void expect_agreement(const HeadJob& job) {
    const HeadOutcome<double> want = reference_head(job);
    const HeadOutcome<float> got = run_head(job, 1, 2);
    EXPECT_NEAR(got.losses[0], want.losses[0], 1e-6 * want.losses[0]);
    EXPECT_LT(worst_row_error(got.d_embeddings[0], want.d_embeddings[0], kReferenceDimension),
              1e-4);
    EXPECT_LT(worst_row_error(got.momentum, want.momentum, kReferenceDimension), 1e-4);
    EXPECT_LT(worst_row_error(got.centres, want.centres, kReferenceDimension), 1e-4);
  }

  static void set_row(std::vector<float>& matrix, std::int64_t row, const std::vector<float>& from,
                      std::int64_t from_row, double factor) {
    for (std::int64_t k = 0; k < kReferenceDimension; ++k) {
      matrix[static_cast<std::size_t>(row * kReferenceDimension + k)] = static_cast<float>(
          factor * from[static_cast<std::size_t>(from_row * kReferenceDimension + k)]);
    }
  }
};

TEST_P(HeadAgainstReference, AgreesOnRandomCentresOverSeveralTiles) {
  expect_agreement(job(37, 1001));
}

TEST_P(HeadAgainstReference, AgreesWithFewerClassesThanATile) { expect_agreement(job(16, 5)); }

TEST_P(HeadAgainstReference, OneClassHasNoLossAndNoGradient) {
  const HeadJob one = job(8, 1);
  const HeadOutcome<float> got = run_head(one, 1);
  EXPECT_EQ(got.losses[0], 0.0);
  EXPECT_EQ(got.d_embeddings[0], std::vector<float>(8 * kReferenceDimension));
  EXPECT_EQ(got.momentum, std::vector<float>(kReferenceDimension));
}

TEST_P(HeadAgainstReference, AgreesWhenAllLabelsAreEqual) {
  HeadJob equal = job(24, 300);
  for (std::int64_t& label : equal.micro_batches[0].labels) label = 217;
  expect_agreement(equal);
}

TEST_P(HeadAgainstReference, AgreesOnEmbeddingsEqualAndOppositeToTheirCentres) {
  HeadJob special = job(8, 300);
  MicroBatch& batch = special.micro_batches[0];
  batch.labels = {3, 4, 5, 6, 7, 8, 9, 10};
  set_row(special.centres, 3, batch.embeddings, 0, 1);
  set_row(special.centres, 4, batch.embeddings, 1, -1);
  set_row(special.centres, 5, batch.embeddings, 2, 0.125);
  set_row(special.centres, 6, batch.embeddings, 3, -4);
  expect_agreement(special);
}

TEST_P(HeadAgainstReference, AgreesOnEmbeddingsAlmostEqualAndAlmostOppositeToTheirCentres) {
  HeadJob special = job(8, 300);
  MicroBatch& batch = special.micro_batches[0];
  batch.labels = {3, 4, 5, 6, 7, 8, 9, 10};
  for (std::int64_t i = 0; i < 8; ++i) {
    set_row(special.centres, 3 + i, batch.embeddings, i, i % 2 == 0 ? 1 : -1);
    // Angles from 1e-1 to about 1e-4: cosines within 5e-9 of 1, which equal 1 in float32.
    const double angle = std::pow(10.0, -1 - static_cast<double>(i) * 3 / 7);
    special.centres[static_cast<std::size_t>((3 + i) * kReferenceDimension)] +=
        static_cast<float>(angle);
  }
  expect_agreement(special);
}

TEST_P(HeadAgainstReference, AgreesOnLengthsFrom1em20To1ep20) {
  HeadJob scaled = job(8, 300);
  std::vector<float>& x = scaled.micro_batches[0].embeddings;
  const double lengths[] = {1e-20, 1e+20, 1, 1e-20, 1e+20, 1e-10, 1e+10, 1};
  for (std::int64_t i = 0; i < 8; ++i) set_row(x, i, x, i, lengths[i]);
  expect_agreement(scaled);
}

INSTANTIATE_TEST_SUITE_P(Margins, HeadAgainstReference, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param.name; });

class HeadUpdates : public OnHeadDevice<TestDevice> {
 protected:
  static HeadJob job(OptimizerKind optimizer, double rate, std::int64_t micro_batches,
                     std::int64_t gradient_acc) {
    HeadJob job;
    job.options = {.classes = 500,
                   .embedding_size = kReferenceDimension,
                   .scale = 32,
                   .sample_rate = rate,
                   .seed = 5,
                   .optimizer = optimizer,
                   .weight_decay = 5e-3,
                   .gradient_acc = gradient_acc};
    job.lr = optimizer == OptimizerKind::kSgd ? 0.05 : 0.001;
    for (std::int64_t i = 0; i < micro_batches; ++i) {
      job.micro_batches.push_back(
          random_batch(20, 500, kReferenceDimension, static_cast<std::uint64_t>(100 + i)));
    }
    job.centres = random_matrix(500, kReferenceDimension, 0.1, 13);
    job.device = GetParam();
    return job;
  }

  static void set_row(std::vector<float>& matrix, std::int64_t row,
                      const std::vector<float>& from) {
    std::ranges::copy(from, matrix.begin() + row * kReferenceDimension);
  }

  static void expect_agreement(const HeadJob& job) {
    const HeadOutcome<double> want = reference_head(job);
    const HeadOutcome<float> got = run_head(job, 1, 2);
    for (std::size_t i = 0; i < want.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5 * want.losses[i]) << i;
      EXPECT_LT(relative_error(got.d_embeddings[i], want.d_embeddings[i]), 1e-4) << i;
    }
    EXPECT_LT(relative_error(got.centres, want.centres), 1e-5);
    EXPECT_LT(relative_error(got.momentum, want.momentum), 1e-4);
    EXPECT_LT(relative_error(got.second, want.second), 2e-4);
  }
};

TEST_P(HeadUpdates, SgdMovesEveryCentreInEveryUpdate) {
  for (const double rate : {1.0, 0.3, 0.0}) expect_agreement(job(OptimizerKind::kSgd, rate, 4, 1));
}

TEST_P(HeadUpdates, SgdMovesLongInactiveCentresAtTheRatesOfTheMissedUpdates) {
  constexpr int kUpdates = 12;
  const auto expect = [](double momentum, double decay, std::int64_t gradient_acc) {
    SCOPED_TRACE(momentum + decay + static_cast<double>(gradient_acc));
    HeadJob j = job(OptimizerKind::kSgd, 0.1, kUpdates * gradient_acc, gradient_acc);
    j.options.momentum = momentum;
    j.options.weight_decay = decay;
    for (int n = 1; n <= kUpdates; ++n) j.lrs.push_back(0.05 * (1 + std::sin(n)));
    expect_agreement(j);
  };
  expect(0.9, 5e-2, 1);
  expect(0.9, 5e-2, 2);
  expect(0.9, 0, 1);
  expect(0, 5e-2, 1);
  expect(0, 5e-2, 2);
  expect(0, 0, 1);
}

TEST_P(HeadUpdates, AdamWMovesEveryCentreInEveryUpdate) {
  for (const double rate : {1.0, 0.3, 0.0})
    expect_agreement(job(OptimizerKind::kAdamW, rate, 4, 1));
}

TEST_P(HeadUpdates, AdamWMovesLongInactiveCentresAtTheRatesOfTheMissedUpdates) {
  constexpr int kUpdates = 50;
  const auto expect = [](double decay, std::int64_t gradient_acc) {
    SCOPED_TRACE(decay + static_cast<double>(gradient_acc));
    HeadJob j = job(OptimizerKind::kAdamW, 0.1, kUpdates * gradient_acc, gradient_acc);
    j.options.weight_decay = decay;
    for (int n = 1; n <= kUpdates; ++n) j.lrs.push_back(0.001 * (1 + std::sin(n)));
    expect_agreement(j);
  };
  expect(0.1, 1);
  expect(0.1, 2);
  expect(0, 1);
}

TEST_P(HeadUpdates, MicroBatchesMoveTheUnionOfTheirCentresOnce) {
  for (const double rate : {1.0, 0.3, 0.0}) {
    expect_agreement(job(OptimizerKind::kSgd, rate, 6, 3));
    expect_agreement(job(OptimizerKind::kAdamW, rate, 4, 2));
  }
}

TEST_P(HeadUpdates, FollowMarginAndSampleRateOfEachUpdate) {
  for (const std::int64_t gradient_acc : {1, 2}) {
    HeadJob j = job(OptimizerKind::kSgd, 1.0, 4 * gradient_acc, gradient_acc);
    j.options.margin_gradient = MarginGradient::kExact;
    j.settings = {{.margin = {.m1 = 1, .m2 = 0, .m3 = 0}, .sample_rate = 0.1},
                  {.margin = {.m1 = 1, .m2 = 0.2, .m3 = 0.1}, .sample_rate = 0.1},
                  {.margin = {.m1 = 1.1, .m2 = 0.4, .m3 = 0.2}, .sample_rate = 0},
                  {.margin = {.m1 = 1.1, .m2 = 0.5, .m3 = 0.2}, .sample_rate = 1}};
    expect_agreement(j);
  }
}

TEST_P(HeadUpdates, CorrectTheLogitsOfDrawnClassesOnly) {
  for (const double rate : {1.0, 0.3, 0.05, 0.0}) {
    HeadJob j = job(OptimizerKind::kSgd, rate, 4, 1);
    j.options.sample_correction = true;
    expect_agreement(j);
  }
  HeadJob filtered = job(OptimizerKind::kAdamW, 0.3, 4, 2);
  filtered.options.sample_correction = true;
  filtered.options.interclass_filtering_threshold = 0.1;
  filtered.options.logits_memory = 0;
  expect_agreement(filtered);
}

// All logits are near -88.7. A target's product is omitted by setting it to 0. This is so far above
// the logits that exp() is infinite, and infinity times 0 is NaN.
TEST_P(HeadUpdates, AgreeIfExpOfAnOmittedProductWouldOverflow) {
  HeadJob far = job(OptimizerKind::kSgd, 1.0, 2, 1);
  far.options.scale = 200;
  far.options.margin = {.m1 = 1, .m2 = 0, .m3 = 0.1};
  far.lr = 1e-5;
  constexpr std::int64_t kHalf = kReferenceDimension / 2;
  const double along = -88.7 / 200 * std::sqrt(2.0);
  const auto pointing = [](double first, std::int64_t at, double there) {
    std::vector<float> row(kReferenceDimension);
    row[0] = static_cast<float>(first);
    row[static_cast<std::size_t>(at)] = static_cast<float>(there);
    return row;
  };
  for (std::int64_t c = 0; c < far.options.classes; ++c) {
    set_row(far.centres, c, pointing(1, kHalf + c % kHalf, 1));
  }
  for (MicroBatch& batch : far.micro_batches) {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(batch.labels.size()); ++i) {
      set_row(batch.embeddings, i,
              pointing(along, 1 + i % (kHalf - 1), std::sqrt(1 - along * along)));
    }
  }
  expect_agreement(far);
}

TEST_P(HeadUpdates, DecayMovesCentresThatWereNeverActive) {
  const HeadJob positives_only = job(OptimizerKind::kAdamW, 0.0, 1, 1);
  const HeadOutcome<float> got = run_head(positives_only, 1);
  const std::vector<std::int64_t>& labels = positives_only.micro_batches[0].labels;
  const auto decay =
      static_cast<float>(1 - positives_only.lr * positives_only.options.weight_decay);
  for (std::int64_t c = 0; c < 500; ++c) {
    const bool active = std::find(labels.begin(), labels.end(), c) != labels.end();
    const auto begin = static_cast<std::size_t>(c * kReferenceDimension);
    EXPECT_EQ(got.momentum[begin] != 0.f, active) << c;
    if (active) continue;
    EXPECT_FLOAT_EQ(got.centres[begin], decay * positives_only.centres[begin]) << c;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, HeadUpdates, ::testing::ValuesIn(head_devices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace pfc::testing
