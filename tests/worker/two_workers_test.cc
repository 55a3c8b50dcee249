// Trains two workers as threads of one process: first until a stop, then to the end. Collectives,
// the reducer's thread, the prefetchers, and the threads of the steps' inputs and of the checkpoint
// writer work at the same time, so that ThreadSanitizer can watch them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "common/files/safetensors.h"
#include "kernels/cpu/margin/tile_products.h"
#include "tests/support/face_folder.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/distillation/teachers.h"
#include "tests/worker/sessions.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/train_loop.h"

namespace pfc {
namespace {

constexpr int kTwoWorkers = 2;

struct TwoWorkersOutcome {
  TrainingEnd end = TrainingEnd::kStopped;
  std::int64_t first_step = 0;
  std::vector<float> weights, centres;
  bool operator==(const TwoWorkersOutcome&) const = default;
};

/// Returns the values of a key in the steps of metrics.jsonl.
std::vector<double> values_in(const std::filesystem::path& output, const char* key) {
  std::vector<double> found;
  std::ifstream in(output / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event["kind"] == "step") found.push_back(event.at(key));
  }
  return found;
}

class TwoWorkers : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_insightface({.folder = data_.path(), .identities = 9, .images_per_identity = 5});
  }

  /// Returns a job of eight steps, with a checkpoint after every second one.
  [[nodiscard]] JobConfig job(const std::filesystem::path& output) const {
    JobConfig job;
    job.network = "mbf";
    job.embedding_size = 16;
    job.batch_size = 8;
    job.sample_rate = 0.5;
    job.num_epoch = 4;
    job.num_workers = 1;
    job.save_every_steps = 2;
    job.keep_checkpoints = 2;
    job.rec = {data_.path()};
    job.output = output;
    job.device = DeviceChoice::kCpu;
    return job;
  }

  /// Returns the results by rank. Rank 1 asks for a stop when it has been asked `stop_after` times;
  /// 0: never. If `output_of` is not null, each rank is on its own host. `look` is called at the
  /// end.
  static std::vector<TwoWorkersOutcome> run(
      const JobConfig& job, int stop_after,
      const std::function<std::filesystem::path(int)>& output_of = {},
      const std::function<void(int rank, TrainingSession& session)>& look = {}) {
    std::vector<TwoWorkersOutcome> outcomes(kTwoWorkers);
    std::atomic<int> asked = 0;
    const auto asked_to_stop = [&](int rank) {
      return rank == 1 && stop_after > 0 && ++asked >= stop_after;
    };
    const auto use = [&](int rank, TrainingSession& session) {
      TwoWorkersOutcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      outcome.first_step = session.plan.first_step();
      outcome.end = train(session, nullptr);
      outcome.weights =
          testing::on_host(*session.local.ops, session.trainer->backbone->weights.flat());
      outcome.centres =
          testing::on_host(*session.local.ops, session.trainer->head->state().centres);
      if (look) look(rank, session);
    };
    testing::with_sessions(job, kTwoWorkers, use, asked_to_stop, output_of);
    return outcomes;
  }

  /// Runs the job without interruption, and again with a stop and a resume. The second run
  /// recomputes the activations of the blocks `recompute`. Expects the same bits.
  void expect_the_same_bits_after_a_stop(JobConfig job,
                                         const std::vector<std::string>& recompute = {}) const {
    job.output = whole_.path();
    const std::vector<TwoWorkersOutcome> whole = run(job, 0);
    EXPECT_EQ(whole[0].end, TrainingEnd::kCompleted);
    EXPECT_EQ(whole[0].weights, whole[1].weights);

    job.output = parts_.path();
    for (const TwoWorkersOutcome& stopped : run(job, 3)) {
      EXPECT_EQ(stopped.end, TrainingEnd::kStopped);
    }
    job.resume = true;
    job.recompute = recompute;
    std::vector<TwoWorkersOutcome> resumed = run(job, 0);
    for (std::size_t rank = 0; rank < kTwoWorkers; ++rank) {
      EXPECT_GT(resumed[rank].first_step, 1);
      resumed[rank].first_step = 1;
      EXPECT_TRUE(resumed[rank] == whole[rank]) << "rank " << rank;
    }
  }

  const TemporaryFolder data_, whole_, parts_, other_host_;
};

TEST_F(TwoWorkers, StopTogetherAndResumeToTheBitsOfAnUninterruptedRun) {
  expect_the_same_bits_after_a_stop(job(whole_.path()));
}

TEST_F(TwoWorkers, ResumeWithRecomputedActivationsToTheBitsOfARunWithKeptActivations) {
  JobConfig synced = job(whole_.path());
  synced.sync_bn = true;
  synced.gradient_acc = 2;
  synced.batch_size = 4;
  expect_the_same_bits_after_a_stop(synced, {"*"});
}

TEST_F(TwoWorkers, ResumeWithEmbeddingsInBf16ToTheBitsOfAnUninterruptedRun) {
  if (!cpu_has_bfloat16()) GTEST_SKIP() << "this CPU has no avx512_bf16";
  JobConfig rounded = job(whole_.path());
  rounded.precision = rounded.exchange_precision = Precision::kBf16;
  rounded.gradient_acc = 2;
  rounded.batch_size = 4;
  expect_the_same_bits_after_a_stop(rounded);
}

TEST_F(TwoWorkers, ResumeDistillationBitExactly) {
  JobConfig distilled = job(whole_.path());
  distilled.teacher = other_host_ / "teacher.safetensors";
  testing::write_teacher(distilled.teacher, 16, distilled.embedding_size);
  distilled.distill_weight = 10;
  distilled.sync_bn = true;
  distilled.gradient_acc = 2;
  distilled.batch_size = 4;
  expect_the_same_bits_after_a_stop(distilled, {"*"});
  const std::vector<double> losses = values_in(whole_.path(), "distillation_loss");
  EXPECT_FALSE(losses.empty());
  for (const double loss : losses) EXPECT_GT(loss, 0);
}

// The teacher is the output of another job. Its centres are in that job's newest checkpoint, where
// most rows have missed updates.
TEST_F(TwoWorkers, DistilLogitsOfAnEarlierJobAndResumeBitExactly) {
  JobConfig teacher = job(other_host_.path());
  teacher.sample_rate = 0.2;
  std::vector<float> trained(9 * 16);
  run(teacher, 0, {}, [&](int /*rank*/, TrainingSession& session) {
    const RowRange shard = session.trainer->head->shard();
    session.trainer->head->read_current(
        shard, std::span(trained).subspan(static_cast<std::size_t>(shard.begin * 16),
                                          static_cast<std::size_t>(shard.size() * 16)));
  });
  JobConfig distilled = job(whole_.path());
  distilled.embedding_size = 24;
  distilled.teacher = other_host_ / "backbone.safetensors";
  distilled.distill_embeddings = DistillEmbeddings::kNone;
  distilled.distill_logits = 2;
  distilled.gradient_acc = 2;
  distilled.batch_size = 4;
  expect_the_same_bits_after_a_stop(distilled);
  const std::vector<double> losses = values_in(whole_.path(), "logits_loss");
  EXPECT_FALSE(losses.empty());
  for (const double loss : losses) EXPECT_GT(loss, 0);
  distilled.output = data_ / "again";
  testing::with_sessions(distilled, kTwoWorkers, [&](int /*rank*/, TrainingSession& session) {
    const std::vector<float> found =
        testing::on_host(*session.local.ops, session.trainer->head->teacher());
    const float* expected = trained.data() + session.trainer->head->shard().begin * 16;
    for (std::size_t row = 0; row < found.size() / 16; ++row, expected += 16) {
      double squares = 0;
      for (int i = 0; i < 16; ++i) squares += double{expected[i]} * double{expected[i]};
      for (std::size_t i = 0; i < 16; ++i) {
        EXPECT_NEAR(found[row * 16 + i], expected[i] / std::sqrt(squares), 1e-6);
      }
    }
  });
}

TEST_F(TwoWorkers, ResumeWithBlocksOfClassesToTheBitsOfAnUninterruptedRun) {
  JobConfig blocks = job(whole_.path());
  blocks.sample_unit = 2;
  blocks.sample_hold = 2;
  expect_the_same_bits_after_a_stop(blocks);
}

// At rate 1 and with fp32 rows, a job with blocks differs from one without only by the order of
// sums, because centres and labels keep their pairing.
TEST_F(TwoWorkers, TrainTheSameCentresByLabelAtAnyPositions) {
  const auto centres_by_label = [&](std::int64_t unit, const std::filesystem::path& output) {
    JobConfig trained = job(output);
    trained.sample_rate = 1;
    trained.sample_unit = unit;
    trained.num_epoch = 1;
    std::vector<float> all(9 * 16);
    run(trained, 0, {}, [&](int /*rank*/, TrainingSession& session) {
      Head& head = *session.trainer->head;
      const RowRange shard = head.shard();
      std::vector<float> rows(static_cast<std::size_t>(shard.size() * 16));
      head.read_current(shard, rows);
      for (std::int64_t p = shard.begin; p < shard.end; ++p) {
        std::copy_n(rows.begin() + (p - shard.begin) * 16, 16,
                    all.begin() + head.positions().label_at(p) * 16);
      }
    });
    return all;
  };
  const std::vector<float> single = centres_by_label(1, whole_.path());
  const std::vector<float> blocks = centres_by_label(2, parts_.path());
  for (std::size_t i = 0; i < single.size(); ++i) EXPECT_NEAR(blocks[i], single[i], 1e-4);
}

// Drop path and the token mask must continue with the same random numbers.
TEST_F(TwoWorkers, ResumeAVisionTransformerToTheBitsOfAnUninterruptedRun) {
  const TemporaryFolder larger;
  testing::write_insightface({.folder = larger.path(),
                              .identities = 9,
                              .images_per_identity = 5,
                              .height = 32,
                              .width = 32});
  JobConfig vit = job(whole_.path());
  vit.network = "vit_t";
  vit.rec = {larger.path()};
  vit.optimizer = OptimizerKind::kAdamW;
  vit.lr = 1e-3;
  vit.gradient_acc = 2;
  vit.batch_size = 4;
  expect_the_same_bits_after_a_stop(vit);
}

TEST_F(TwoWorkers, ResumeAnImageClassifierToTheBitsOfAnUninterruptedRun) {
  const TemporaryFolder larger;
  testing::write_insightface({.folder = larger.path(),
                              .identities = 9,
                              .images_per_identity = 5,
                              .height = 32,
                              .width = 32});
  JobConfig classifier = job(whole_.path());
  classifier.network = "resnet18";
  classifier.embedding_size = 512;
  classifier.zero_init_residual = true;
  classifier.rec = {larger.path()};
  classifier.sync_bn = true;
  classifier.batch_size = 4;
  expect_the_same_bits_after_a_stop(classifier);
}

TEST_F(TwoWorkers, ResumeRandomResizedCropsToTheBitsOfAnUninterruptedRun) {
  JobConfig cropped = job(whole_.path());
  cropped.augment.random_resized_crop = RandomResizedCrop{};
  cropped.num_workers = 2;
  expect_the_same_bits_after_a_stop(cropped);
}

/// Embeds the training images one by one.
std::vector<std::vector<float>> embeddings_of(TrainingSession& session) {
  const EmbedBatch embed =
      embed_with(*session.local.ops, *session.trainer->backbone, session.evaluated_images);
  const Dataset& data = *session.local.dataset;
  const ReadImage read = read_images_of(data, {data.info().height, data.info().width});
  const auto batch = static_cast<std::size_t>(session.job.batch_size);
  std::vector<std::uint8_t> pixels(batch * data.info().sample_bytes());
  std::vector<float> out(batch * static_cast<std::size_t>(session.job.embedding_size));
  std::vector<std::vector<float>> all;
  for (std::int64_t i = 0; i < data.info().images; ++i) {
    read(i, std::span(pixels).first(data.info().sample_bytes()));
    embed(pixels, out);
    all.emplace_back(out.begin(), out.begin() + session.job.embedding_size);
  }
  return all;
}

/// Returns the fraction of the embeddings for which the centre of the right class, i / images of a
/// class, has the greatest cosine.
double top_1(const std::vector<std::vector<float>>& embeddings, const std::vector<float>& centres,
             std::size_t images_of_class) {
  int hits = 0;
  for (std::size_t i = 0; i < embeddings.size(); ++i) {
    const std::size_t d = embeddings[i].size();
    std::vector<double> cosines;
    for (std::size_t c = 0; c < centres.size() / d; ++c) {
      double product = 0, squares = 0;
      for (std::size_t k = 0; k < d; ++k) {
        const double w = centres[c * d + k];
        product += w * double{embeddings[i][k]};
        squares += w * w;
      }
      cosines.push_back(product / std::sqrt(squares));
    }
    const auto best = std::ranges::max_element(cosines) - cosines.begin();
    hits += static_cast<std::size_t>(best) == i / images_of_class ? 1 : 0;
  }
  return hits / static_cast<double>(embeddings.size());
}

/// Returns the evaluations in metrics.jsonl.
std::vector<nlohmann::json> evaluations_in(const std::filesystem::path& output) {
  std::vector<nlohmann::json> found;
  std::ifstream in(output / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event["kind"] == "evaluation") found.push_back(event);
  }
  return found;
}

TEST_F(TwoWorkers, MeasureTopKAccuracyWithoutChangingTheTraining) {
  JobConfig plain = job(whole_.path());
  plain.freeze = {"*"};  // its embeddings differ between images from the start
  const auto expected = run(plain, 0);
  JobConfig classified = plain;
  classified.output = parts_.path();
  classified.val_rec = {data_.path()};
  classified.verbose = 3;
  std::vector<std::vector<float>> embeddings;
  const auto outcomes = run(classified, 0, {}, [&](int rank, TrainingSession& session) {
    if (rank == 0) embeddings = embeddings_of(session);
  });
  EXPECT_TRUE(outcomes == expected);
  std::vector<float> centres = outcomes[0].centres;
  centres.insert(centres.end(), outcomes[1].centres.begin(), outcomes[1].centres.end());

  const auto told = evaluations_in(parts_.path());
  ASSERT_EQ(told.size(), 3u) << "after steps 3, 6 and 8";
  EXPECT_EQ(told.back()["images"].get<int>(), 45);
  EXPECT_EQ(told.back()["val_target"].get<std::string>(), data_.path().filename().string());
  EXPECT_GT(top_1(embeddings, centres, 5), 1. / 9) << "more than one class is found";
  EXPECT_DOUBLE_EQ(told.back()["top"]["1"].get<double>(), top_1(embeddings, centres, 5));
  EXPECT_GE(told.back()["top"]["5"].get<double>(), told.back()["top"]["1"].get<double>());
}

/// Returns the numbers of all float tensors of a model's file.
std::vector<double> numbers_of(const std::filesystem::path& file) {
  std::vector<double> numbers;
  const SafetensorsFile tensors(file);
  for (const auto& [name, tensor] : tensors.tensors()) {
    if (tensor.dtype != "F32") continue;
    const std::span<const float> values = tensors.float32(name, tensor.shape);
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  return numbers;
}

// The expected averages are computed in float64 from the weights and statistics after each step.
TEST_F(TwoWorkers, WriteTheMovingAverageOfAllSteps) {
  JobConfig averaged = job(whole_.path());
  averaged.ema_decay = 0.8;
  averaged.save_every_steps = 1;
  averaged.keep_checkpoints = 100;
  averaged.num_epoch = 8;
  run(averaged, 0);
  std::vector<double> expected;
  const std::int64_t steps = 16;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const std::vector<double> now =
        numbers_of(whole_ / checkpoint_format::folder_name(step) / checkpoint_format::kBackbone);
    const double decay = std::min(0.8, 1 - std::pow(static_cast<double>(step), -2.0 / 3));
    expected.resize(now.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
      expected[i] = decay * expected[i] + (1 - decay) * now[i];
    }
  }
  const std::vector<double> found = numbers_of(whole_ / "backbone.safetensors");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-6 * (1 + std::abs(expected[i]))) << i;
  }
  const auto last = whole_ / checkpoint_format::folder_name(steps);
  EXPECT_EQ(numbers_of(last / checkpoint_format::kBackboneAverage), found);
  EXPECT_NE(numbers_of(last / checkpoint_format::kBackbone), found);
}

// The error must let the coordinator retry, because a checkpoint may be invisible for a moment.
TEST_F(TwoWorkers, DoNotContinueFromAnOlderStateThanTheJobHasSaved) {
  JobConfig job_ = job(parts_.path());
  job_.max_steps = 2;
  run(job_, 0);
  job_.resume = true;
  job_.max_steps = 4;
  const auto use = [](int, TrainingSession&) {};
  testing::with_sessions(job_, kTwoWorkers, use, {}, {}, /*checkpoint_step=*/2);
  try {
    testing::with_sessions(job_, kTwoWorkers, use, {}, {}, /*checkpoint_step=*/3);
    FAIL() << "the job started below step 3";
  } catch (const InputError& error) {
    FAIL() << error.what() << ": an InputError would end the job permanently";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(
        std::string(error.what())
            .find("should have the checkpoint of step 3, but the newest state found is step 2"),
        std::string::npos)
        << error.what();
  }
}

TEST_F(TwoWorkers, StopAndResumeToTheSameBitsIfHostsDoNotShareTheOutput) {
  const std::vector<TwoWorkersOutcome> whole = run(job(whole_.path()), 0);
  const auto output_of = [&](int rank) {
    return rank == 0 ? parts_.path() : other_host_ / "not/there";
  };
  JobConfig in_parts = job(parts_.path());
  for (const TwoWorkersOutcome& stopped : run(in_parts, 3, output_of)) {
    EXPECT_EQ(stopped.end, TrainingEnd::kStopped);
  }
  in_parts.resume = true;
  std::vector<TwoWorkersOutcome> resumed = run(in_parts, 0, output_of);
  for (std::size_t rank = 0; rank < kTwoWorkers; ++rank) {
    EXPECT_GT(resumed[rank].first_step, 1);
    resumed[rank].first_step = 1;
    EXPECT_TRUE(resumed[rank] == whole[rank]) << "rank " << rank;
  }
  EXPECT_TRUE(std::filesystem::is_empty(other_host_.path()));
}

}  // namespace
}  // namespace pfc
