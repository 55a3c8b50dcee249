// Tests fine-tuning: frozen parts of the backbone, weights and centres from files, and centres that
// start at mean embeddings. Workers are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>

#include "common/config/parameters/name_patterns.h"
#include "common/files/safetensors.h"
#include "model/evaluation/evaluation_sets.h"
#include "model/networks/arena.h"
#include "tests/support/face_folder.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/sessions.h"
#include "worker/head/row_copy.h"
#include "worker/train_loop.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kIdentities = 9, kImagesOfEach = 5, kSize = 16;

class FineTune : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_insightface(
        {.folder = data_.path(), .identities = kIdentities, .images_per_identity = kImagesOfEach});
  }

  [[nodiscard]] JobConfig job() const {
    JobConfig job;
    job.network = "mbf";
    job.embedding_size = kSize;
    job.batch_size = 4;
    job.max_steps = 2;
    job.num_workers = 1;
    job.rec = {data_.path()};
    job.output = output_.path();
    job.device = DeviceChoice::kCpu;
    return job;
  }

  const TemporaryFolder data_, output_, files_;
};

/// The tensors of a session, under PyTorch's names, and the moments.
struct NamedValues {
  std::vector<HostTensor> tensors, momentum;
};

NamedValues values_of(TrainingSession& s) {
  return {
      export_state_dict(*s.local.ops, *s.trainer->backbone),
      export_flat(*s.local.ops, s.trainer->backbone->weights, s.trainer->optimizer.momentum(), "")};
}

void expect_kept(const NamedValues& before, const NamedValues& after, const char* pattern) {
  int kept = 0, changed = 0;
  for (std::size_t i = 0; i < before.tensors.size(); ++i) {
    const HostTensor& tensor = before.tensors[i];
    if (tensor.name.ends_with("num_batches_tracked")) continue;  // one counter for all batch norms
    const bool frozen = matches_pattern(tensor.name, pattern);
    EXPECT_EQ(tensor.bytes == after.tensors[i].bytes, frozen) << tensor.name;
    ++(frozen ? kept : changed);
  }
  for (std::size_t i = 0; i < before.momentum.size(); ++i) {
    const HostTensor& tensor = before.momentum[i];
    const bool zero =
        std::ranges::all_of(after.momentum[i].bytes, [](std::byte b) { return b == std::byte{0}; });
    EXPECT_EQ(zero, matches_pattern(tensor.name, pattern)) << tensor.name;
  }
  EXPECT_GT(kept, 10);
  EXPECT_GT(changed, 5);
}

TEST_F(FineTune, FrozenTensorsStayBitIdenticalEvenAfterAResumeWithAnotherNumberOfWorkers) {
  JobConfig job_ = job();
  job_.freeze = {"layers.*"};
  job_.gradient_acc = 2;
  job_.sync_bn = true;
  NamedValues before;
  testing::with_sessions(job_, 2, [&](int rank, TrainingSession& session) {
    const NamedValues first = values_of(session);
    train(session, nullptr);
    expect_kept(first, values_of(session), "layers.*");
    if (rank == 0) before = first;
  });
  job_.resume = true;
  job_.max_steps = 4;
  testing::with_sessions(job_, 3, [&](int, TrainingSession& session) {
    EXPECT_EQ(session.plan.first_step(), 3);
    train(session, nullptr);
    expect_kept(before, values_of(session), "layers.*");
  });
}

TEST_F(FineTune, ChangesOnlyCentresIfTheBackboneIsFrozen) {
  JobConfig job_ = job();
  job_.freeze = {"*"};
  std::vector<HostTensor> before;
  testing::with_sessions(job_, 2, [&](int rank, TrainingSession& session) {
    if (rank == 0) before = export_state_dict(*session.local.ops, *session.trainer->backbone);
    const auto centres =
        testing::on_host(*session.local.ops, session.trainer->head->state().centres);
    train(session, nullptr);
    EXPECT_NE(testing::on_host(*session.local.ops, session.trainer->head->state().centres),
              centres);
  });
  const SafetensorsFile model(output_ / "backbone.safetensors");
  for (const HostTensor& tensor : before) {
    EXPECT_TRUE(std::ranges::equal(model.at(tensor.name).bytes, tensor.bytes)) << tensor.name;
  }
}

/// Returns all rows of centres as float32, right after the session was created.
std::vector<float> first_centres(const JobConfig& job, int workers,
                                 const std::function<void(TrainingSession&)>& look = {}) {
  std::vector<float> all(static_cast<std::size_t>(kIdentities * kSize));
  testing::with_sessions(job, workers, [&](int, TrainingSession& session) {
    const Head::State state = session.trainer->head->state();
    const RowRange shard = session.trainer->head->shard();
    copy_rows_to_host(*session.local.ops, all.data() + shard.begin * kSize, state.centres);
    std::vector<float> momentum(static_cast<std::size_t>(shard.size() * kSize));
    copy_rows_to_host(*session.local.ops, momentum.data(), state.momentum);
    EXPECT_THAT(momentum, ::testing::Each(0.f));
    if (look) look(session);
    session.comms.host().barrier();
  });
  return all;
}

/// Computes the mean centres in float64, one image at a time.
std::vector<double> reference_centres(TrainingSession& session) {
  const EmbedOptions one{
      .batch = session.job.batch_size, .height = kSize, .width = kSize, .flip = false};
  const EmbedBatch embed =
      embed_with(*session.local.ops, *session.trainer->backbone, session.evaluated_images);
  const ReadImage read = read_images_of(*session.local.dataset, {kSize, kSize});
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(one.batch * kSize * kSize * 3));
  std::vector<float> out(static_cast<std::size_t>(one.batch * kSize));
  std::vector<double> centres(static_cast<std::size_t>(kIdentities * kSize));
  const auto add_unit = [](auto from, double* to) {
    double squares = 0;
    for (std::int64_t k = 0; k < kSize; ++k) squares += double{from[k]} * double{from[k]};
    for (std::int64_t k = 0; k < kSize; ++k) to[k] += double{from[k]} / std::sqrt(squares);
  };
  for (std::int64_t i = 0; i < kIdentities * kImagesOfEach; ++i) {
    read(i, std::span(pixels).first(static_cast<std::size_t>(kSize * kSize * 3)));
    embed(pixels, out);
    add_unit(out.data(), centres.data() + i / kImagesOfEach * kSize);
  }
  std::vector<double> unit(centres.size());
  for (std::int64_t c = 0; c < kIdentities; ++c) {
    add_unit(centres.data() + c * kSize, unit.data() + c * kSize);
  }
  return unit;
}

TEST_F(FineTune, CentresStartAtMeanEmbeddingsForAnyNumberOfWorkers) {
  JobConfig job_ = job();
  job_.init_centres = InitialCentres::kMean;
  std::vector<double> reference;
  const auto alone = first_centres(job_, 1, [&](TrainingSession& session) {
    reference = reference_centres(session);
    EXPECT_THAT(session.start_message, HasSubstr("mean embeddings of 45 of 45 images"));
  });
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(alone[i], reference[i], 1e-6) << i;
  EXPECT_EQ(first_centres(job_, 2), alone);
  EXPECT_EQ(first_centres(job_, 3), alone);

  job_.centre_precision = CentrePrecision::kBf16;
  const auto rounded = first_centres(job_, 2);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_NEAR(rounded[i], reference[i], std::abs(reference[i]) * 0x1p-8) << i;
  }
  job_.centre_precision = CentrePrecision::kInt8;
  const auto one_byte = first_centres(job_, 2);
  // Half of a rounding step of a row of length 1, and the error of the sums.
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_NEAR(one_byte[i], reference[i], 0.6 / 64) << i;
  }
}

TEST_F(FineTune, ResumedJobKeepsItsCentres) {
  JobConfig job_ = job();
  job_.init_centres = InitialCentres::kMean;
  std::vector<float> trained;
  testing::with_sessions(job_, 1, [&](int, TrainingSession& session) {
    train(session, nullptr);
    trained = testing::on_host(*session.local.ops, session.trainer->head->state().centres);
  });
  job_.resume = true;
  job_.max_steps = 3;
  testing::with_sessions(job_, 1, [&](int, TrainingSession& session) {
    EXPECT_EQ(testing::on_host(*session.local.ops, session.trainer->head->state().centres),
              trained);
  });
}

class FineTuneFrom : public FineTune {
 protected:
  /// Writes weights made with another seed, and `rows` centres. All numbers of a row are the row's
  /// index.
  void write_file(std::int64_t rows, const std::map<std::string, std::string>& metadata = {}) {
    JobConfig other = job();
    other.seed = 7;
    testing::with_sessions(other, 1, [&](int, TrainingSession& session) {
      tensors_ = export_state_dict(*session.local.ops, *session.trainer->backbone);
    });
    std::vector<float> centres;
    for (std::int64_t row = 0; row < rows; ++row)
      centres.resize(centres.size() + kSize, float(row));
    std::vector<SafetensorsEntry> entries{
        {"centres", "F32", {rows, kSize}, std::as_bytes(std::span(centres))}};
    for (const HostTensor& t : tensors_) entries.push_back({t.name, t.dtype, t.shape, t.bytes});
    write_safetensors(files_ / "weights.safetensors", entries, metadata);
  }

  [[nodiscard]] JobConfig job_from_file() const {
    JobConfig from = job();
    from.init_from = files_ / "weights.safetensors";
    return from;
  }

  std::vector<HostTensor> tensors_;
};

TEST_F(FineTuneFrom, KeepsCentresWithTheSameNamesAndStartsAllOtherCentresAtTheMean) {
  write_file(3);
  testing::write_file(files_ / "identities.txt", "person 4\nnobody here\nperson 0\n");
  std::string names;
  for (int i = 0; i < kIdentities; ++i) names += "person " + std::to_string(i) + "\n";
  testing::write_file(data_ / "identities.txt", names);
  JobConfig job_ = job_from_file();
  job_.init_centres = InitialCentres::kMean;
  std::vector<double> reference;
  const auto centres = first_centres(job_, 2, [&](TrainingSession& session) {
    EXPECT_THAT(session.start_message, HasSubstr("centres of 2 of 9 classes by name"));
    if (session.membership.rank == 0) reference = reference_centres(session);
  });
  for (std::size_t i = 0; i < centres.size(); ++i) {
    const auto label = static_cast<std::int64_t>(i) / kSize;
    EXPECT_NEAR(centres[i], label == 4 ? 0 : label == 0 ? 2 : reference[i], 1e-6) << label;
  }
}

TEST_F(FineTuneFrom, TakesCentresByNumberIfTheNumberOfClassesIsEqual) {
  write_file(kIdentities);
  JobConfig job_ = job_from_file();
  job_.init_centres = InitialCentres::kMean;
  const auto centres = first_centres(job_, 2);
  for (std::size_t i = 0; i < centres.size(); ++i) EXPECT_EQ(centres[i], i / kSize) << i;
}

TEST_F(FineTuneFrom, TakesOnlyNamedTensors) {
  write_file(kIdentities);
  JobConfig job_ = job_from_file();
  job_.init_from_names = {"layers.*", "features.layers.0.*"};
  std::vector<float> own_centres = first_centres(job(), 1);
  std::vector<HostTensor> own, mixed;
  testing::with_sessions(job(), 1, [&](int, TrainingSession& session) {
    own = export_state_dict(*session.local.ops, *session.trainer->backbone);
  });
  EXPECT_EQ(first_centres(job_, 1,
                          [&](TrainingSession& session) {
                            mixed =
                                export_state_dict(*session.local.ops, *session.trainer->backbone);
                            EXPECT_THAT(session.start_message,
                                        HasSubstr("left as initialised conv_sep (6 tensors), "
                                                  "features ("));
                          }),
            own_centres);
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    const bool taken = matches_any(mixed[i].name, job_.init_from_names);
    EXPECT_EQ(mixed[i].bytes, (taken ? tensors_ : own)[i].bytes) << mixed[i].name;
  }
}

TEST_F(FineTuneFrom, WarnsThatTheFilesNetworkReadsPixelsInAnotherWay) {
  const auto message = [&](const std::map<std::string, std::string>& metadata) {
    write_file(kIdentities, metadata);
    JobConfig job_ = job_from_file();
    job_.pixels.mean = {0.25, 0.5, 0.5};
    std::string text;
    testing::with_sessions(job_, 1, [&](int, TrainingSession& s) { text = s.start_message; });
    return text;
  };
  EXPECT_THAT(message({{"network", "mbf"}}),
              HasSubstr("reads pixels with image_mean [0.5, 0.5, 0.5] and image_std [0.5, 0.5, "
                        "0.5], but this job with image_mean [0.25, 0.5, 0.5]"));
  EXPECT_THAT(message({{"network", "mbf"}, {"image_mean", "[0.25,0.5,0.5]"}}),
              Not(HasSubstr("reads pixels")));
  EXPECT_THAT(message({}), Not(HasSubstr("reads pixels"))) << "the file does not say it";
}

}  // namespace
}  // namespace pfc
