// Tests that a step is the same for any number of workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "kernels/make_ops.h"
#include "tests/support/error_message.h"
#include "tests/support/relative_error.h"
#include "tests/support/staged_comm.h"
#include "tests/support/thread_comm.h"
#include "tests/worker/head/head_job.h"

namespace pfc::testing {
namespace {

constexpr std::int64_t kWorkersDimension = 32;
constexpr std::int64_t kPrimeClasses = 1009;  // prime: no number of workers divides it

HeadJob job_at_rate(double rate, const TestDevice& device,
                    OptimizerKind optimizer = OptimizerKind::kSgd) {
  HeadJob job;
  job.device = device;
  job.options = {.classes = kPrimeClasses,
                 .embedding_size = kWorkersDimension,
                 .sample_rate = rate,
                 .seed = 77,
                 .optimizer = optimizer};
  job.lr = 0.01;
  for (std::uint64_t i = 0; i < 3; ++i) {
    job.micro_batches.push_back(random_batch(31, kPrimeClasses, kWorkersDimension, 40 + i));
  }
  return job;
}

void expect_same(const HeadOutcome<float>& got, const HeadOutcome<float>& want) {
  for (std::size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5 * want.losses[i]);
    EXPECT_LT(relative_error(got.d_embeddings[i], want.d_embeddings[i]), 1e-5);
  }
  EXPECT_LT(relative_error(got.centres, want.centres), 1e-5);
  EXPECT_LT(relative_error(got.momentum, want.momentum), 1e-5);
  EXPECT_LT(relative_error(got.second, want.second), 1e-5);
}

class HeadOnWorkers : public OnHeadDevice<std::tuple<TestDevice, int>> {
 protected:
  const TestDevice device_ = std::get<0>(GetParam());
  const int workers_ = std::get<1>(GetParam());
};

TEST_P(HeadOnWorkers, AgreesWithOneWorkerIfBlocksOfClassesAreDrawn) {
  HeadJob job = job_at_rate(0.1, device_);
  job.options.sample_unit = 8;
  expect_same(run_head(job, workers_), run_head(job, 1));
}

TEST_P(HeadOnWorkers, AgreesWithOneWorkerAtEverySampleRate) {
  for (const double rate : {1.0, 0.1, 0.0}) {
    SCOPED_TRACE(rate);
    expect_same(run_head(job_at_rate(rate, device_), workers_),
                run_head(job_at_rate(rate, device_), 1));
  }
}

TEST_P(HeadOnWorkers, AgreesWithOneWorkerIfTheLogitsOfDrawnClassesAreCorrected) {
  HeadJob corrected = job_at_rate(0.1, device_);
  corrected.options.sample_correction = true;
  expect_same(run_head(corrected, workers_), run_head(corrected, 1));
}

TEST_P(HeadOnWorkers, AgreesWithOneWorkerForAdamWAndMicroBatches) {
  HeadJob accumulated = job_at_rate(0.1, device_, OptimizerKind::kAdamW);
  accumulated.options.gradient_acc = 3;
  expect_same(run_head(accumulated, workers_), run_head(accumulated, 1));
}

TEST_P(HeadOnWorkers, AgreesWithOneWorkerIfMostShardsHaveNoActiveClass) {
  HeadJob one_class = job_at_rate(0.0, device_);
  for (MicroBatch& batch : one_class.micro_batches) {
    for (std::size_t i = 0; i < batch.labels.size(); ++i) {
      batch.labels[i] = 500 + static_cast<std::int64_t>(i % 3);
    }
  }
  expect_same(run_head(one_class, workers_), run_head(one_class, 1));
}

TEST_P(HeadOnWorkers, AgreesWithOneWorkerIfEachShardHasHardlyMoreThanOneClass) {
  HeadJob tiny = job_at_rate(1.0, device_);
  tiny.options.classes = 5;
  for (MicroBatch& batch : tiny.micro_batches) {
    for (std::size_t i = 0; i < batch.labels.size(); ++i) {
      batch.labels[i] = static_cast<std::int64_t>(i % 5);
    }
  }
  expect_same(run_head(tiny, workers_), run_head(tiny, 1));
}

TEST_P(HeadOnWorkers, AgreesWithOneWorkerIfCentresMissManyUpdates) {
  HeadJob missing = job_at_rate(0.05, device_);
  for (std::uint64_t i = 3; i < 25; ++i) {
    missing.micro_batches.push_back(random_batch(31, kPrimeClasses, kWorkersDimension, 40 + i));
  }
  expect_same(run_head(missing, workers_), run_head(missing, 1));
}

TEST_P(HeadOnWorkers, NeedsTwoCollectivesPerStep) {
  HeadJob j = job_at_rate(1.0, device_);
  run_ranks(workers_, [&](Comm& comm) {
    const auto ops = device_.make(1);
    StagedComm staged(*ops, comm);
    const auto head = make_head(*ops, staged, j.options);
    const MicroBatch& batch = j.micro_batches[0];
    const auto memory = ops->allocate(batch.embeddings.size() * sizeof(float));
    const Tensor embeddings(memory->data(), DType::kFloat32,
                            {std::ssize(batch.labels), kWorkersDimension});
    ops->copy_to_device(embeddings, batch.embeddings.data());
    const ActiveCentres active = head->sample(batch.labels, 1);
    head->run({.all_embeddings = embeddings, .all_labels = batch.labels, .active = active});
    EXPECT_EQ(comm.counters().calls, 2u);
    EXPECT_EQ(comm.counters().kinds[static_cast<std::size_t>(CollectiveKind::kAllToAll)].calls, 1u);
  });
}

INSTANTIATE_TEST_SUITE_P(Workers, HeadOnWorkers,
                         ::testing::Combine(::testing::ValuesIn(head_devices()),
                                            ::testing::Values(2, 3, 5)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "s" +
                                  std::to_string(std::get<1>(test.param));
                         });

class HeadStep : public OnHeadDevice<TestDevice> {};

TEST_P(HeadStep, IsBitIdenticalWhenRepeated) {
  const HeadOutcome<float> first = run_head(job_at_rate(0.3, GetParam()), 1, 2);
  const HeadOutcome<float> second = run_head(job_at_rate(0.3, GetParam()), 1, 2);
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.d_embeddings, second.d_embeddings);
  EXPECT_EQ(first.centres, second.centres);
}

TEST_P(HeadStep, HasANonFiniteLossForNonFiniteEmbeddings) {
  HeadJob broken = job_at_rate(1.0, GetParam());
  broken.micro_batches[0].embeddings[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(run_head(broken, 2).losses[0]));
}

INSTANTIATE_TEST_SUITE_P(Devices, HeadStep, ::testing::ValuesIn(head_devices()),
                         [](const auto& test) { return test.param.name; });

class HeadRefuses : public ::testing::Test {
 protected:
  static void make(const HeadOptions& options, int world_size = 1) {
    run_ranks(world_size, [&](Comm& comm) {
      const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
      static_cast<void>(make_head(*ops, comm, options));
    });
  }
  static std::string reason(const HeadOptions& options, int world_size = 1) {
    return message_of<InputError>([&] { make(options, world_size); });
  }
  HeadOptions options_{.classes = 100, .embedding_size = 8};
};

TEST_F(HeadRefuses, SeveralLabelsWithAMarginOfEachSample) {
  options_.labels_per_image = 2;
  EXPECT_NO_THROW(make(options_));
  options_.loss = AdaFace{};
  EXPECT_THAT(reason(options_), ::testing::HasSubstr("loss: samples with several labels need"));
}

TEST_F(HeadRefuses, AScaleThatIsNotPositive) {
  options_.scale = 0;
  EXPECT_THAT(reason(options_), ::testing::HasSubstr("margin_scale is 0"));
  options_.scale = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(reason(options_), ::testing::HasSubstr("margin_scale is nan"));
}

TEST_F(HeadRefuses, ASampleRateOutsideZeroToOne) {
  for (const double rate : {-0.1, 1.5}) {
    options_.sample_rate = rate;
    EXPECT_THAT(reason(options_), ::testing::HasSubstr("sample_rate is"));
  }
}

TEST_F(HeadRefuses, FewerClassesThanWorkers) {
  options_.classes = 2;
  EXPECT_NO_THROW(make(options_, 2));
  EXPECT_THAT(reason(options_, 3), ::testing::HasSubstr("2 classes, fewer than the 3 workers"));
}

TEST_F(HeadRefuses, SeparateHeadsWhoseClassesDoNotAddUp) {
  options_.head_classes = {30, 60};
  EXPECT_THAT(reason(options_),
              ::testing::HasSubstr("head_classes: the heads have 90 classes together, expected "
                                   "num_classes, which is 100"));
}

}  // namespace
}  // namespace pfc::testing
