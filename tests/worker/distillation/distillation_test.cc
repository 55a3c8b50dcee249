#include "worker/distillation/distillation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "comm/make_comm.h"
#include "tests/support/counting_ops.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/checkpoint/checkpoint_world.h"
#include "tests/worker/distillation/teachers.h"
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

TEST(DistillationLoss, MatchesFormulaWithItsGradient) {
  const std::vector<float> mine = random_rows(1), theirs = random_rows(2);
  const std::vector<double> x(mine.begin(), mine.end());
  for (const DistillEmbeddings kind : {DistillEmbeddings::kCosine, DistillEmbeddings::kMse}) {
    const DistillationOptions options{
        .kind = kind, .weight = 7, .batch = kBatch, .embedding_size = kSize, .samples = 2 * kBatch};
    testing::CountingOps ops(1);
    auto teacher = std::make_unique<KnownTeacher>(ops, theirs);
    ops.allocated = 0;
    Distillation distillation(ops, std::move(teacher), options);
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
      ops, std::make_unique<KnownTeacher>(ops, broken),
      {.file = "t.pt", .batch = kBatch, .embedding_size = kSize, .samples = kBatch});
  const auto comm = make_host_comm({}, nullptr);
  EXPECT_EQ(distillation.step_loss(*comm, 1.5, 1), 0.5);
  distillation.compare({}, {embeddings.data(), {kBatch, kSize}});
  EXPECT_THAT(
      message_of<InputError>([&] { distillation.step_loss(*comm, distillation.loss_sum(), 12); }),
      HasSubstr("teacher: t.pt: at step 12 the embeddings of the network or of its teacher are not "
                "finite"));
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

}  // namespace
}  // namespace pfc
