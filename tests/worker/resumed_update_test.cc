// Tests AdamW's update after a job was resumed with another global batch, against the equations in
// float64. The moments continue, and so must the number of the update: after 6 steps of 2 workers,
// the next update is number 7, although one worker counts it as step 13.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/face_folder.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/sessions.h"
#include "worker/train_loop.h"
#include "worker/train_step.h"

namespace pfc {
namespace {

struct ResumedWith {
  const char* name;
  int workers;
  std::int64_t batch_size, gradient_acc;
  std::int64_t by_images;  ///< what the next step's number would be if all steps had had this size
};

constexpr std::int64_t kUpdatesBefore = 6;  // of 2 workers x 4 images

class ResumedUpdate : public ::testing::TestWithParam<ResumedWith> {
 protected:
  void SetUp() override {
    testing::write_insightface({.folder = data_.path(), .identities = 6, .images_per_identity = 8});
  }

  [[nodiscard]] JobConfig job() const {
    JobConfig job;
    job.network = "mbf";
    job.embedding_size = 16;
    job.batch_size = 4;
    job.optimizer = OptimizerKind::kAdamW;
    job.lr = 0.01;
    job.weight_decay = 0.05;
    job.clip_norm = 0;
    job.num_epoch = 100;
    job.num_workers = 1;
    job.rec = {data_.path()};
    job.output = output_.path();
    job.device = DeviceChoice::kCpu;
    return job;
  }

  const TemporaryFolder data_, output_;
};

/// Weights and their moments.
struct Moments {
  std::vector<float> values, first, second;
};

Moments of_backbone(TrainingSession& s) {
  return {testing::on_host(*s.local.ops, s.trainer->backbone->weights.flat()),
          testing::on_host(*s.local.ops, s.trainer->optimizer.momentum()),
          testing::on_host(*s.local.ops, s.trainer->optimizer.second())};
}

Moments of_centres(TrainingSession& s) {
  const Head::State head = s.trainer->head->state();
  return {testing::on_host(*s.local.ops, head.centres),
          testing::on_host(*s.local.ops, head.momentum),
          testing::on_host(*s.local.ops, head.second)};
}

/// The equations of Loshchilov and Hutter, "Decoupled weight decay regularization", algorithm 2,
/// with the moments after the update. Returns the relative error of the change from `before` to
/// `after`.
double error_as_update(std::int64_t number, const Moments& before, const Moments& after, double lr,
                       double decay) {
  const double first_part = 1 - std::pow(0.9, number), second_part = 1 - std::pow(0.999, number);
  double wrong = 0, way = 0;
  for (std::size_t i = 0; i < before.values.size(); ++i) {
    const double old = before.values[i];
    const double gradient = after.first[i] / first_part;
    const double expected =
        old - lr * decay * old - lr * gradient / (std::sqrt(after.second[i] / second_part) + 1e-8);
    wrong += std::pow(after.values[i] - expected, 2);
    way += std::pow(expected - old, 2);
  }
  return std::sqrt(wrong / way);
}

TEST_P(ResumedUpdate, ContinuesTheUpdateNumberOfTheCheckpoint) {
  JobConfig before = job();
  before.max_steps = kUpdatesBefore;
  testing::with_sessions(before, 2, [](int, TrainingSession& session) {
    EXPECT_EQ(train(session, nullptr), TrainingEnd::kCompleted);
  });
  JobConfig now = job();
  now.resume = true;
  now.batch_size = GetParam().batch_size;
  now.gradient_acc = GetParam().gradient_acc;
  testing::with_sessions(now, GetParam().workers, [&](int rank, TrainingSession& session) {
    EXPECT_EQ(session.plan.first_step(), kUpdatesBefore + 1);
    Trainer& trainer = *session.trainer;
    const Moments backbone = of_backbone(session), centres = of_centres(session);
    const StepStats stats = train_step(trainer, *session.inputs);
    const auto error = [&](std::int64_t number, const Moments& old, const Moments& current) {
      return error_as_update(number, old, current, stats.lr, now.weight_decay);
    };
    EXPECT_LT(error(kUpdatesBefore + 1, backbone, of_backbone(session)), 1e-4);
    EXPECT_LT(error(kUpdatesBefore + 1, centres, of_centres(session)), 1e-4);
    if (GetParam().by_images != kUpdatesBefore + 1) {
      EXPECT_GT(error(GetParam().by_images, backbone, of_backbone(session)), 0.01)
          << "rank " << rank << ": both update numbers give the same result";
    }
    session.comms.host().barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Batches, ResumedUpdate,
                         ::testing::Values(ResumedWith{"Same", 2, 4, 1, 7},
                                           ResumedWith{"FewerWorkers", 1, 4, 1, 13},
                                           ResumedWith{"MoreWorkers", 3, 4, 1, 5},
                                           ResumedWith{"SmallerBatch", 2, 2, 1, 13},
                                           ResumedWith{"LargerBatch", 2, 8, 1, 4},
                                           ResumedWith{"MicroBatches", 2, 4, 2, 4}),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace pfc
