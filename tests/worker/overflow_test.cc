// Tests that neither the backbone nor a centre moves on any worker if gradients overflow because of
// their loss scale. Uses float16 on emulated GPUs, and on CPUs float32 with a far too large scale.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <vector>

#include "tests/comm/ranks.h"
#include "tests/support/face_folder.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/sessions.h"
#include "worker/training_session.h"

namespace pfc {
namespace {

constexpr int kOverflowWorkers = 2;

struct OverflowCase {
  const char* name;
  DeviceChoice device;
  OptimizerKind optimizer;
  std::int64_t gradient_acc;
};

/// Everything that an update changes.
struct UpdatedState {
  std::vector<float> weights, momentum, centres, centre_momentum, centre_second;
  std::vector<std::int32_t> seen;
  std::int32_t updates = 0;
  friend bool operator==(const UpdatedState&, const UpdatedState&) = default;
};

UpdatedState state_of(TrainingSession& s) {
  const Head::State head = s.trainer->head->state();
  return {.weights = testing::on_host(*s.local.ops, s.trainer->backbone->weights.flat()),
          .momentum = testing::on_host(*s.local.ops, s.trainer->optimizer.momentum()),
          .centres = testing::on_host(*s.local.ops, head.centres),
          .centre_momentum = testing::on_host(*s.local.ops, head.momentum),
          .centre_second = testing::on_host(*s.local.ops, head.second),
          .seen = {head.updated.begin(), head.updated.end()},
          .updates = head.history->count()};
}

class Overflow : public ::testing::TestWithParam<OverflowCase> {
 protected:
  Overflow() {
    testing::write_insightface({.folder = data_.path(), .identities = 9, .images_per_identity = 8});
    static_cast<void>(transports());  // one GPU per worker
  }

  [[nodiscard]] JobConfig job() const {
    JobConfig job;
    job.network = "mbf";
    job.embedding_size = 16;
    job.batch_size = 4;
    job.optimizer = GetParam().optimizer;
    job.lr = 0.001;
    job.gradient_acc = GetParam().gradient_acc;
    job.num_workers = 1;
    job.rec = {data_.path()};
    job.output = output_.path();
    job.device = GetParam().device;
    if (job.device == DeviceChoice::kCuda) job.precision = Precision::kFp16;
    return job;
  }

  /// Runs `body` on each worker, with a scale that makes the gradients of the first step overflow.
  void train(const std::function<void(TrainingSession&, Trainer&)>& body) {
    testing::with_sessions(job(), kOverflowWorkers, [&](int, TrainingSession& session) {
      session.trainer->loss_scale = LossScale::dynamic();
      session.trainer->loss_scale.restore({.value = on_gpu() ? 0x1p24 : 0x1p127});
      Trainer& trainer = *session.trainer;
      body(session, trainer);
      session.comms.host().barrier();
    });
  }
  static bool on_gpu() { return GetParam().device == DeviceChoice::kCuda; }

  const TemporaryFolder data_, output_;
};

TEST_P(Overflow, ChangesNeitherTheBackboneNorACentre) {
  train([](TrainingSession& session, Trainer& trainer) {
    const UpdatedState before = state_of(session);
    const double scale = session.trainer->loss_scale.value();
    const StepStats stats = train_step(trainer, *session.inputs);
    EXPECT_FALSE(std::isfinite(stats.gradient_norm));
    EXPECT_EQ(session.trainer->loss_scale.value(), scale / 2);
    EXPECT_EQ(session.trainer->loss_scale.updates(), 0);
    EXPECT_TRUE(state_of(session) == before);
  });
}

TEST_P(Overflow, NextUpdateCountsAsTheFirstOfBackboneAndCentres) {
  train([](TrainingSession& session, Trainer& trainer) {
    static_cast<void>(train_step(trainer, *session.inputs));
    const UpdatedState before = state_of(session);
    session.trainer->loss_scale.restore({.value = 0x1p-8});
    const StepStats stats = train_step(trainer, *session.inputs);
    EXPECT_TRUE(std::isfinite(stats.gradient_norm));
    const UpdatedState after = state_of(session);
    EXPECT_NE(after.weights, before.weights);
    EXPECT_NE(after.centres, before.centres);
    EXPECT_EQ(after.updates, 1);
    if (GetParam().optimizer == OptimizerKind::kSgd) return;
    // In AdamW's first update, every element moves by about lr, whatever its gradient is.
    double most = 0;
    for (std::size_t i = 0; i < after.centres.size(); ++i) {
      most = std::max(most, std::abs(double{after.centres[i]} - double{before.centres[i]}));
    }
    EXPECT_NEAR(most, 0.001, 0.0001);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Devices, Overflow,
    ::testing::Values(
        OverflowCase{"GpuSgd", DeviceChoice::kCuda, OptimizerKind::kSgd, 1},
        OverflowCase{"GpuAdamW", DeviceChoice::kCuda, OptimizerKind::kAdamW, 1},
        OverflowCase{"CpuSgdMicroBatches", DeviceChoice::kCpu, OptimizerKind::kSgd, 2},
        OverflowCase{"CpuAdamWMicroBatches", DeviceChoice::kCpu, OptimizerKind::kAdamW, 2}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace pfc
