// Tests that a worker's file is enough to repeat its step.
#include "worker/head/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "common/config/job_json.h"
#include "common/error.h"
#include "kernels/make_ops.h"
#include "tests/support/error_message.h"
#include "tests/support/relative_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thread_comm.h"
#include "tests/worker/head/head_job.h"

namespace pfc::testing {
namespace {

using std::filesystem::path;
using ::testing::HasSubstr;

constexpr std::int64_t kReplaySamples = 12, kReplayClasses = 500, kReplayDimension = 16;

std::vector<float> values_of(const SafetensorsFile& file, const std::string& name) {
  const auto values = file.float32(name, file.at(name).shape);
  return {values.begin(), values.end()};
}

class HeadReplay : public ::testing::Test {
 protected:
  HeadReplay() {
    job_.device = DeviceChoice::kCpu;  // the emulated GPU exists too
    job_.margin_scale = 16;
    job_.sample_rate = 0.2;
    job_.lr = 0.05;
  }

  /// Trains `steps` steps with `workers` workers. Each worker writes the input of the last step to
  /// its file in parts_ before it runs that step.
  void train(int workers, std::int64_t steps = 3) {
    std::filesystem::remove_all(parts_);
    std::filesystem::create_directory(parts_);
    HeadOptions options = head_options(job_);
    options.classes = kReplayClasses;
    options.embedding_size = kReplayDimension;
    at_positions_ = batch_;
    for (std::int64_t& label : at_positions_.labels) {
      label = options.positions().position_of(label);
    }
    run_ranks(workers, [&](Comm& comm) {
      const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
      const auto head = make_head(*ops, comm, options);
      for (std::int64_t i = 1; i <= steps; ++i) take_step(*ops, comm, *head, i, i == steps);
    });
    step_ = steps;
  }

  [[nodiscard]] HeadStepInput parts() const { return read_head_step(std::vector{parts_}); }
  ReplayResult replay(int workers) {
    return replay_head_step(
        parts(), {.job = job_, .step = step_, .update = step_, .workers = workers}, out_);
  }

  JobConfig job_;
  /// The job_.gradient_acc micro-batches of each step.
  MicroBatch batch_ = random_batch(kReplaySamples, kReplayClasses, kReplayDimension, 3);
  MicroBatch at_positions_;  // batch_ with positions instead of labels
  double loss_ = 0;          // of the last step, as trained: mean over micro-batches
  const TemporaryFolder folder_;
  const path parts_ = folder_ / "parts", out_ = folder_ / "out.safetensors";
  std::int64_t step_ = 0;

 private:
  void take_step(Ops& ops, Comm& comm, Head& head, std::int64_t number, bool last) {
    std::vector<float> embeddings = batch_.embeddings;
    constexpr std::int64_t all = kReplaySamples;
    const auto labels_each = std::max<std::int64_t>(job_.labels_per_image, 1);
    if (last) {
      const GivenToHead given{.step = number,
                              .update = number,
                              .lr = job_.lr,
                              .micro_batches = job_.gradient_acc,
                              .embeddings = Tensor(embeddings.data(), {all, kReplayDimension}),
                              .labels = at_positions_.labels};
      write_head_step_part(parts_ / ("part-" + std::to_string(comm.rank()) + ".safetensors"), ops,
                           head,
                           {.given = given,
                            .job = to_json(job_),
                            .rank = comm.rank(),
                            .world_size = comm.size(),
                            .not_finite = "the loss"});
    }
    LossState before = *head.state().loss;
    const auto scale = 1 / static_cast<double>(job_.gradient_acc);
    const std::int64_t samples = all / job_.gradient_acc;
    double loss = 0;
    for (std::int64_t micro = 0; micro < job_.gradient_acc; ++micro) {
      const auto labels = std::span(at_positions_.labels)
                              .subspan(static_cast<std::size_t>(micro * samples * labels_each),
                                       static_cast<std::size_t>(samples * labels_each));
      const ActiveCentres active = head.sample(labels, number);
      const Head::Step step{
          .all_embeddings = Tensor(embeddings.data() + micro * samples * kReplayDimension,
                                   {samples, kReplayDimension}),
          .all_labels = labels,
          .active = active,
          .lr = job_.lr,
          .update = number,
          .micro_batch = micro,
          .gradient_scale = scale};
      const HeadResult result = head.run(step);
      loss += result.loss * scale;
      if (!result.d_embeddings) break;
      if (micro + 1 == job_.gradient_acc && !result.moved) head.move(step);
    }
    // A step file for a gradient that is not finite is written now, with the state before the step.
    if (!before.threshold)
      before.threshold = head.loss_before(number).threshold;  // set by the first step
    EXPECT_EQ(head.loss_before(number), before);
    EXPECT_EQ(head.loss_before(number + 1), *head.state().loss);
    const bool has_state = std::holds_alternative<AdaFace>(job_.loss) || is_uniface(job_.loss);
    EXPECT_EQ(*head.state().loss == before, !has_state);
    if (last && comm.rank() == 0) loss_ = loss;
  }
};

TEST_F(HeadReplay, ReproducesTheJobsLossFromThePartsOfAllWorkers) {
  for (const OptimizerKind optimizer : {OptimizerKind::kSgd, OptimizerKind::kAdamW}) {
    job_.optimizer = optimizer;
    train(3);
    EXPECT_NEAR(replay(1).loss, loss_, 1e-6 * loss_);
    EXPECT_NEAR(replay(4).loss, loss_, 1e-6 * loss_);
  }
}

TEST_F(HeadReplay, ReproducesTheLossOfAJobWithBlocksFromFilesThatHaveLabels) {
  job_.sample_unit = 8;
  train(3);
  const HeadStepInput input = parts();
  EXPECT_FALSE(std::ranges::is_sorted(input.classes));
  for (std::size_t i = 0; i < batch_.labels.size(); ++i) {
    EXPECT_EQ(input.classes[static_cast<std::size_t>(input.labels[i])], batch_.labels[i]);
  }
  EXPECT_NEAR(replay(1).loss, loss_, 1e-6 * loss_);
  EXPECT_NEAR(replay(4).loss, loss_, 1e-6 * loss_);
}

TEST_F(HeadReplay, ReproducesTheJobsLossForSeveralLabelsOfASample) {
  job_.labels_per_image = 3;
  job_.gradient_acc = 2;
  add_labels(batch_, 3, kReplayClasses);
  train(3);
  EXPECT_EQ(parts().labels_per_image, 3);
  for (const int workers : {1, 2}) EXPECT_NEAR(replay(workers).loss, loss_, 1e-6 * loss_);
}

TEST_F(HeadReplay, ReproducesTheJobsLossFromTheStateOfItsLoss) {
  for (const Loss& loss : {Loss(AdaFace{.t_alpha = 0.3}), Loss(MagFace{.l_a = 0.1, .u_a = 2}),
                           Loss(ElasticArcFace{.std = 0.3}), Loss(UniFace{})}) {
    job_.loss = loss;
    for (const std::int64_t gradient_acc : {1, 3}) {
      job_.gradient_acc = gradient_acc;
      train(3);
      EXPECT_NEAR(replay(2).loss, loss_, 1e-6 * loss_);
    }
  }
}

TEST_F(HeadReplay, ReproducesTheJobsLossFromBf16RowsInAnyPrecision) {
  job_.centre_precision = CentrePrecision::kBf16;
  train(2);
  EXPECT_NEAR(replay(1).loss, loss_, 1e-6 * loss_);
  job_.centre_precision = CentrePrecision::kFp32;
  EXPECT_NEAR(replay(1).loss, loss_, 1e-6 * loss_);
}

TEST_F(HeadReplay, ReproducesTheJobsLossFromOneByteRowsWithoutMomentum) {
  job_.centre_momentum = 0;
  for (const CentrePrecision precision : {CentrePrecision::kInt8, CentrePrecision::kFp8}) {
    job_.centre_precision = precision;
    train(2);
    const ReplayResult result = replay(1);
    EXPECT_NEAR(result.loss, loss_, 1e-6 * loss_);
    EXPECT_EQ(result.momentum.rows(), 0);
    EXPECT_GT(result.centres.rows(), 0);
  }
}

TEST_F(HeadReplay, ReturnsTheMeanLossOfAllMicroBatches) {
  job_.gradient_acc = 3;
  train(2);
  const HeadStepInput in = parts();
  EXPECT_EQ(in.micro_batches, 3);
  EXPECT_EQ(in.samples, kReplaySamples);
  ASSERT_EQ(in.active.size(), 3u);
  EXPECT_NE(in.active[0], in.active[1]);  // each has its own labels besides the sampled classes
  for (const int workers : {1, 3}) {
    const ReplayResult result = replay(workers);
    EXPECT_NEAR(result.loss, loss_, 1e-6 * loss_);
    EXPECT_EQ(result.losses.size(), 3u);
  }
  EXPECT_EQ(SafetensorsFile(out_).at("loss").shape, std::vector<std::int64_t>{3});
  EXPECT_EQ(SafetensorsFile(out_).at("d_embeddings").shape,
            (std::vector<std::int64_t>{kReplaySamples, kReplayDimension}));
}

TEST_F(HeadReplay, StopsAtTheMicroBatchWithANonFiniteLoss) {
  job_.gradient_acc = 3;
  batch_.embeddings[5 * kReplayDimension + 2] = std::numeric_limits<float>::quiet_NaN();
  train(2, 1);
  const ReplayResult result = replay(2);
  EXPECT_TRUE(std::isfinite(result.losses[0]));
  EXPECT_TRUE(std::isnan(result.losses[1]));
  EXPECT_TRUE(std::isnan(result.losses[2]));
  EXPECT_EQ(result.d_embeddings.not_finite(), 2 * kReplaySamples / 3 * kReplayDimension);
  EXPECT_EQ(result.momentum.longest(), 0);
}

/// Compares a step file's result with the job's rows after the step.
class HeadReplayMoves : public HeadReplay, public ::testing::WithParamInterface<std::int64_t> {};

TEST_P(HeadReplayMoves, UpdatesRowsAsTheJobWould) {
  job_.optimizer = OptimizerKind::kAdamW;
  job_.gradient_acc = GetParam();
  train(3);
  replay(2);
  const HeadStepInput before = parts();
  ASSERT_GT(before.rows, 50);
  ASSERT_LT(before.rows, 200);

  train(1, 4);  // the next step's part holds the rows after this one
  const HeadStepInput next = parts();
  const SafetensorsFile after(out_);
  std::size_t compared = 0;
  for (const char* name : {"centres", "momentum", "second"}) {
    const std::vector<float> replayed = values_of(after, name);
    const std::vector<float> trained = values_of(next.files[0], name);
    for (std::size_t i = 0; i < before.classes.size(); ++i) {
      const auto found = std::ranges::find(next.classes, before.classes[i]);
      if (found == next.classes.end()) continue;
      const auto row = static_cast<std::size_t>(found - next.classes.begin());
      const auto rows_of = [&](const std::vector<float>& table, std::size_t at) {
        const float* begin = table.data() + at * kReplayDimension;
        return std::vector<float>(begin, begin + kReplayDimension);
      };
      EXPECT_LT(relative_error(rows_of(replayed, i), rows_of(trained, row)), 1e-4) << name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 30u);
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, HeadReplayMoves, ::testing::Values(1, 3));

TEST_F(HeadReplay, WritesTheSameStepForAnyNumberOfWorkers) {
  train(2);
  replay(1);
  const SafetensorsFile one(out_);
  EXPECT_EQ(one.at("loss").shape, std::vector<std::int64_t>{1});
  EXPECT_EQ(one.at("d_embeddings").shape,
            (std::vector<std::int64_t>{kReplaySamples, kReplayDimension}));
  EXPECT_EQ(one.at("classes").dtype, "I64");
  std::map<std::string, std::vector<float>> want;
  for (const char* name : {"loss", "d_embeddings", "centres", "momentum"}) {
    want[name] = values_of(one, name);
  }
  EXPECT_FALSE(one.tensors().contains("second"));
  replay(3);
  const SafetensorsFile three(out_);
  for (const auto& [name, values] : want) {
    EXPECT_LT(relative_error(values_of(three, name), values), 1e-5) << name;
  }
}

TEST_F(HeadReplay, ScalesGradientsLikeThoseOfAMicroBatch) {
  train(1);
  const double whole = replay(1).d_embeddings.norm();
  job_.gradient_acc = 4;
  EXPECT_NEAR(replay(1).d_embeddings.norm(), whole / 4, 1e-6 * whole);
}

TEST_F(HeadReplay, ChangesNothingForANonFiniteLossAndReportsWhere) {
  batch_.embeddings[5 * kReplayDimension + 2] = std::numeric_limits<float>::quiet_NaN();
  train(2, 1);
  EXPECT_FALSE(std::isfinite(loss_));
  const ReplayResult result = replay(2);
  EXPECT_TRUE(std::isnan(result.loss));
  EXPECT_EQ(result.d_embeddings.not_finite(), kReplaySamples * kReplayDimension);
  EXPECT_EQ(result.centres.not_finite(), 0);
  const SafetensorsFile after(out_);
  const std::vector<float> rows = values_of(after, "centres");
  std::size_t at = 0;
  parts().centres.each_stretch({0, parts().rows}, [&](std::span<const float> before, auto) {
    for (const float x : before) EXPECT_EQ(rows[at++], x);
  });
}

TEST_F(HeadReplay, NeedsOneRowForEachWorker) {
  job_.sample_rate = 0;
  batch_.labels.assign(kReplaySamples, 7);
  train(1);
  EXPECT_THAT(message_of<InputError>([&] { replay(2); }),
              AllOf(HasSubstr("1 rows"), HasSubstr("2 workers")));
}

TEST_F(HeadReplay, NamesAFileThatItCannotWrite) {
  train(1);
  const ReplayOptions options{.job = job_, .step = 1};
  EXPECT_THAT(message_of<StorageError>(
                  [&] { replay_head_step(parts(), options, folder_ / "no" / "out.safetensors"); }),
              HasSubstr("out.safetensors"));
}

TEST_F(HeadReplay, CorrectsTheLogitsOfDrawnClassesAsTheJobDid) {
  job_.sample_correction = true;
  for (const int workers : {1, 2}) {
    train(workers);
    EXPECT_NEAR(replay(1).loss, loss_, 1e-6 * loss_);
  }
  job_.sample_correction = false;
  EXPECT_LT(replay(1).loss, loss_ - 0.5);
}

}  // namespace
}  // namespace pfc::testing
