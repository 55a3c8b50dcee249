#include "worker/distillation/distillation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/make_comm.h"
#include "kernels/cpu/margin/tile_products.h"
#include "tests/support/counting_ops.h"
#include "tests/support/error_message.h"
#include "tests/support/fake_dataset.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/checkpoint/checkpoint_world.h"
#include "tests/worker/distillation/teachers.h"
#include "worker/distillation/teacher_centres.h"
#include "worker/distillation/teacher_file.h"
#include "worker/memory/memory_plan.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kBatch = 3, kSize = 5;

/// Returns the embeddings given to it.
class KnownTeacher : public SmallBackbone {
 public:
  KnownTeacher(Ops& ops, std::vector<float> embeddings)
      : SmallBackbone(ops), embeddings_(std::move(embeddings)) {}
  void read(const Tensor& /*batch*/) override {}
  Tensor forward(const Tensor& /*images*/, bool training, std::int64_t /*step*/) override {
    EXPECT_FALSE(training);
    return {embeddings_.data(), {kBatch, kSize}};
  }

 private:
  std::vector<float> embeddings_;
};

/// A data set whose classes have the names n0, n1 and so on.
class NamedClasses : public testing::FakeDataset {
 public:
  NamedClasses() : FakeDataset(6) {}
  [[nodiscard]] std::string identity(std::int64_t label) const override {
    return "n" + std::to_string(label);
  }
};

std::vector<float> random_rows(int seed) {
  std::vector<float> rows(kBatch * kSize);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = std::sin(static_cast<float>(i * i) + static_cast<float>(seed));
  }
  return rows;
}

/// Returns the sum of the samples' losses, in float64 from the formulas of the papers.
double expected_sum(DistillEmbeddings kind, const std::vector<double>& x,
                    const std::vector<float>& t) {
  double sum = 0;
  for (std::size_t row = 0; row < kBatch; ++row) {
    double product = 0, xx = 0, tt = 0, squares = 0;
    for (std::size_t i = row * kSize; i < (row + 1) * kSize; ++i) {
      const double mine = x[i], theirs = t[i];
      product += mine * theirs;
      xx += mine * mine;
      tt += theirs * theirs;
      squares += (mine - theirs) * (mine - theirs);
    }
    sum += kind == DistillEmbeddings::kCosine ? 1 - product / std::sqrt(xx * tt) : squares / kSize;
  }
  return sum;
}

TEST(DistillationLoss, AgreesWithTheFormulaAndItsGradient) {
  const std::vector<float> mine = random_rows(1), theirs = random_rows(2);
  const std::vector<double> x(mine.begin(), mine.end());
  for (const DistillEmbeddings kind : {DistillEmbeddings::kCosine, DistillEmbeddings::kMse}) {
    const DistillationOptions options{
        .kind = kind, .weight = 7, .batch = kBatch, .embedding_size = kSize, .samples = 2 * kBatch};
    testing::CountingOps ops(1);
    auto teacher = std::make_unique<KnownTeacher>(ops, theirs);
    ops.allocated = 0;
    Distillation distillation(ops, std::move(teacher), DType::kFloat32, options);
    const Distillation::Bytes bytes = Distillation::bytes(options);
    EXPECT_EQ(ops.allocated, bytes.difference + bytes.unit + bytes.inverse_norms + bytes.loss);

    std::vector<float> embeddings = mine, gradient(mine.size(), 0.5f);
    distillation.compare({}, {embeddings.data(), {kBatch, kSize}});
    EXPECT_NEAR(distillation.loss_sum(), expected_sum(kind, x, theirs), 1e-6);
    distillation.add_gradient({gradient.data(), {kBatch, kSize}});
    EXPECT_EQ(embeddings, mine);
    for (std::size_t i = 0; i < x.size(); ++i) {
      constexpr double kStep = 1e-6;
      std::vector<double> more = x, less = x;
      more[i] += kStep;
      less[i] -= kStep;
      const double slope =
          (expected_sum(kind, more, theirs) - expected_sum(kind, less, theirs)) / (2 * kStep);
      EXPECT_NEAR(gradient[i], 0.5 + 7 * slope / (2 * kBatch), 1e-6) << i;
    }
  }
}

TEST(DistillationLoss, NamesATeacherWhoseEmbeddingsAreNotFinite) {
  testing::CountingOps ops(1);
  std::vector<float> broken(kBatch * kSize, NAN), embeddings = random_rows(1);
  Distillation distillation(
      ops, std::make_unique<KnownTeacher>(ops, broken), DType::kFloat32,
      {.file = "t.pt", .batch = kBatch, .embedding_size = kSize, .samples = kBatch});
  const auto comm = make_host_comm({}, nullptr);
  EXPECT_EQ(distillation.step_loss(*comm, 1.5, 1), 0.5);
  distillation.compare({}, {embeddings.data(), {kBatch, kSize}});
  EXPECT_THAT(
      message_of<InputError>([&] { distillation.step_loss(*comm, distillation.loss_sum(), 12); }),
      HasSubstr("teacher: t.pt: at step 12 the embeddings of the network or of its teacher are not "
                "finite"));
}

TEST(DistillationLoss, GathersEmbeddingsOfAnotherSizeIfOnlyLogitsAreCompared) {
  const std::vector<float> theirs = random_rows(2);
  const DistillationOptions options{.kind = DistillEmbeddings::kNone,
                                    .batch = kBatch,
                                    .embedding_size = 99,
                                    .samples = kBatch,
                                    .teacher_size = kSize,
                                    .gathered = kBatch};
  testing::CountingOps ops(1);
  auto teacher = std::make_unique<KnownTeacher>(ops, theirs);
  ops.allocated = 0;
  Distillation distillation(ops, std::move(teacher), DType::kFloat32, options);
  EXPECT_EQ(ops.allocated, Distillation::bytes(options).all);
  EXPECT_FALSE(distillation.compares_embeddings());
  distillation.compare({}, {});
  const auto comm = make_host_comm({}, nullptr);
  const Tensor all = distillation.gather(*comm);
  EXPECT_EQ(std::vector<float>(all.f32(), all.f32() + all.elements()), theirs);
}

TEST(TeacherPrecision, IsBf16InFp32JobsIfTheDeviceSupportsBf16) {
  constexpr DType kFloat = DType::kFloat32, kHalf = DType::kBFloat16, kFp16 = DType::kFloat16;
  JobConfig job;
  EXPECT_EQ(teacher_activations(job, kFloat, true), kHalf);
  EXPECT_EQ(teacher_activations(job, kFloat, false), kFloat);
  EXPECT_EQ(teacher_activations(job, kFp16, true), kFp16);
  EXPECT_EQ(teacher_activations(job, kHalf, true), kHalf);
  job.teacher_precision = Precision::kFp32;
  EXPECT_EQ(teacher_activations(job, kHalf, true), kFloat);
  job.teacher_precision = Precision::kBf16;
  EXPECT_EQ(teacher_activations(job, kFp16, true), kHalf);
  EXPECT_THAT(message_of<InputError>([&] { teacher_activations(job, kFloat, false); }),
              HasSubstr("teacher_precision: found bf16, but this device lacks"));
}

class TeacherFile : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_teacher(job_.teacher, 32, 8); }
  [[nodiscard]] std::string refusal(std::int64_t side = 32) const {
    return message_of<InputError>([&] { read_teacher(job_, side, side); });
  }

  const TemporaryFolder folder_;
  JobConfig job_{.embedding_size = 8, .teacher = folder_ / "teacher.safetensors"};
};

TEST_F(TeacherFile, MemoryMatchesThePlan) {
  const ModelFile teacher = read_teacher(job_, 32, 32);
  EXPECT_EQ(teacher.options.network, "mbf");
  PlannedJob planned{.job = job_, .teacher = teacher.options};
  planned.job.network = "mbf";
  planned.job.batch_size = kBatch;
  planned.data.height = planned.data.width = 32;
  const BackboneMemory memory = plan_backbone(planned).teacher;
  testing::CountingOps ops(1);
  const auto network = make_backbone(ops, teacher, kBatch);
  EXPECT_EQ(memory.weights + memory.operands + memory.state + memory.activations, ops.allocated);
  EXPECT_EQ(memory.gradients, 0u);
  EXPECT_THAT(teacher_brief(job_.teacher, teacher), HasSubstr("mbf, SHA-256 "));
}

TEST_F(TeacherFile, RejectsSizesOtherThanTheJobs) {
  EXPECT_EQ(refusal(48), "teacher: " + job_.teacher.string() +
                             ": its network mbf needs images of 32 x 32 pixels, but the job's are "
                             "48 x 48; set image_size to 32, or use another teacher");
  job_.embedding_size = 16;
  EXPECT_EQ(refusal(), "teacher: " + job_.teacher.string() +
                           ": its network mbf has embedding size 8, expected the job's 16; set "
                           "embedding_size to 8, or use another teacher");
  job_.output = folder_.path();
  job_.embedding_size = 8;
  EXPECT_EQ(refusal(),
            "teacher: " + job_.teacher.string() + ": found a file in the job's output folder " +
                job_.output.string() +
                ", where the job replaces and deletes models; copy it to another folder");
  job_.output = folder_ / "output";
  std::filesystem::create_directory(job_.output);
  std::filesystem::create_symlink(job_.output, folder_ / "link");
  std::filesystem::create_symlink(job_.teacher, job_.output / "backbone.safetensors");
  job_.teacher = folder_ / "link/backbone.safetensors";
  EXPECT_THAT(refusal(), HasSubstr("found a file in the job's output folder"));
  job_.teacher = folder_ / "missing";
  EXPECT_THAT(refusal(), HasSubstr("teacher: " + job_.teacher.string()));
  job_.teacher = folder_.path();
  EXPECT_THAT(refusal(), HasSubstr("teacher: " + job_.teacher.string()));
}

TEST_F(TeacherFile, MayHaveAnotherEmbeddingSizeIfEmbeddingsAreNotCompared) {
  job_.embedding_size = 16;
  job_.distill_embeddings = DistillEmbeddings::kNone;
  EXPECT_EQ(read_teacher(job_, 32, 32).options.embedding_size, 8);
}

TEST_F(TeacherFile, MemoryMatchesThePlanInBf16) {
  if (!cpu_has_bfloat16()) GTEST_SKIP() << "this CPU has no bf16 instructions (avx512_bf16)";
  PlannedJob planned{.job = job_, .teacher = read_teacher(job_, 32, 32).options};
  planned.job.network = "mbf";
  planned.job.batch_size = kBatch;
  planned.data.height = planned.data.width = 32;
  const BackboneMemory single = plan_backbone(planned).teacher;
  planned.teacher_type = DType::kBFloat16;
  const PlannedBackbone half = plan_backbone(planned);
  testing::CountingOps ops(1);
  const WithActivations teachers(ops, DType::kBFloat16);
  const auto network = make_backbone(ops, read_teacher(job_, 32, 32), kBatch);
  EXPECT_EQ(
      half.teacher.weights + half.teacher.operands + half.teacher.state + half.teacher.activations,
      ops.allocated);
  EXPECT_GT(half.teacher.operands, 0u);
  EXPECT_LT(half.teacher.activations, single.activations);
  EXPECT_EQ(half.memory.operands, 0u) << "the job's own network stays in fp32";
}

class CentresOfATeacher : public TeacherFile {
 protected:
  void SetUp() override {
    TeacherFile::SetUp();
    job_.distill_logits = 1;
    job_.num_classes = 5;
    testing::write_teacher(job_.teacher, 32, 8, 5);
  }
  [[nodiscard]] TeacherCentres found() const {
    return TeacherCentres(job_, read_teacher(job_, 32, 32), named_);
  }
  [[nodiscard]] std::string centres_refusal() const {
    return message_of<InputError>([&] { static_cast<void>(found()); });
  }

  const NamedClasses named_;
};

TEST_F(CentresOfATeacher, FillAShardWithUnitVectorsFromTheFile) {
  testing::CountingOps ops(1);
  const OwnedTensor rows(ops, {2, 8});
  found().fill(ops, {}, {3, 5}, rows);
  for (std::size_t row = 0; row < 2; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < 8; ++i) squares += std::pow(std::sin(24. + 8. * row + i), 2);
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_NEAR(rows->f32()[row * 8 + i], std::sin(24. + 8. * row + i) / std::sqrt(squares),
                  1e-6);
    }
  }
}

TEST_F(CentresOfATeacher, FillTheRowsOfTheirPositions) {
  testing::CountingOps ops(1);
  const OwnedTensor by_label(ops, {5, 8}), by_position(ops, {5, 8});
  const ClassPositions positions{.classes = 5, .sample_unit = 2, .seed = 1};
  found().fill(ops, {}, {0, 5}, by_label);
  found().fill(ops, positions, {0, 5}, by_position);
  for (std::int64_t c = 0; c < 5; ++c) {
    for (std::int64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(by_position->f32()[positions.position_of(c) * 8 + i], by_label->f32()[c * 8 + i]);
    }
  }
}

TEST_F(CentresOfATeacher, AreRejectedForOtherClasses) {
  job_.num_classes = 6;
  EXPECT_THAT(centres_refusal(), HasSubstr("have 5 classes, expected the job's 6"));
  job_.num_classes = 5;
  std::ofstream(folder_ / "identities.txt") << "n0\nn1\nx\nn3\nn4\n";
  EXPECT_THAT(centres_refusal(), HasSubstr("identities.txt: class 2 is \"x\", but \"n2\" in the "
                                           "job's data"));
  std::ofstream(folder_ / "identities.txt") << "n0\nn1\nn2\nn3\nn4\n";
  EXPECT_NO_THROW(static_cast<void>(found()));
  testing::write_teacher(job_.teacher, 32, 8);
  EXPECT_THAT(centres_refusal(), HasSubstr("found no class centres in the file or its folder"));
}

}  // namespace
}  // namespace pfc
