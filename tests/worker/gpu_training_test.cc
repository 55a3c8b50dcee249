// Compares whole training steps of several workers, with a teacher, on (emulated) GPUs with the
// same steps on CPUs. Session, communicators, streams and reducer run together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "tests/comm/ranks.h"
#include "tests/support/face_folder.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_devices.h"
#include "tests/worker/distillation/teachers.h"
#include "tests/worker/sessions.h"
#include "worker/training_session.h"

namespace pfc {
namespace {

constexpr int kMostGpuTrainingWorkers = 2;
constexpr std::int64_t kGpuTrainingSteps = 3;

struct TrainedOnDevice {
  std::vector<double> losses, distillation_losses, logits_losses, norms;
  std::vector<float> weights, centres;
};

JobConfig job_of(DeviceChoice device, const std::filesystem::path& data,
                 const std::filesystem::path& output, const std::filesystem::path& teacher) {
  JobConfig job;
  job.network = "mbf";
  job.embedding_size = 16;
  job.batch_size = 8;
  job.lr = 0.001;  // small, because batch norm over few rows magnifies rounding from step to step
  job.sync_bn = true;
  job.num_workers = 1;
  job.max_steps = kGpuTrainingSteps;
  // With this seed, no activation is so near the kink of its PReLU that rounding matters.
  job.seed = 17;
  job.rec = {data};
  job.output = output;
  job.teacher = teacher;
  job.distill_weight = 10;
  job.distill_logits = 2;
  job.sample_rate = 0.5;
  job.teacher_precision = Precision::kFp32;  // bf16 would round differently on the two devices
  job.device = device;
  return job;
}

TrainedOnDevice train_one(TrainingSession& session) {
  // Workers allocate all GPU memory and choose algorithms before the first step.
  const auto free_memory = [&session] {
    session.comms.host().barrier();
    const std::size_t bytes = session.local.ops->memory().free;
    session.comms.host().barrier();
    return bytes;
  };
  const std::size_t free_before = free_memory();
  Trainer& trainer = *session.trainer;
  TrainedOnDevice trained;
  for (std::int64_t step = 1; step <= kGpuTrainingSteps; ++step) {
    const StepStats stats = train_step(trainer, *session.inputs);
    EXPECT_EQ(stats.step, step);
    trained.losses.push_back(stats.loss);
    trained.distillation_losses.push_back(stats.distillation_loss.value());
    trained.logits_losses.push_back(stats.logits_loss.value());
    trained.norms.push_back(stats.gradient_norm);
  }
  if (on_emulated_gpu()) {
    EXPECT_EQ(free_memory(), free_before);
  } else {  // a GPU loads a kernel's code at its first launch
    EXPECT_GE(free_memory() + (std::size_t{64} << 20), free_before);
  }
  if (session.job.device == DeviceChoice::kCuda && session.membership.world_size > 1) {
    EXPECT_EQ(session.local.memory.part("NCCL's buffers").detail, "measured");
    EXPECT_GT(session.local.memory.part("NCCL's buffers").bytes, 0u);
  }
  trained.weights = testing::on_host(*session.local.ops, session.trainer->backbone->weights.flat());
  trained.centres = testing::on_host(*session.local.ops, session.trainer->head->state().centres);
  session.comms.step->throw_if_failed();
  session.comms.host().barrier();
  return trained;
}

/// Returns the results by rank.
std::vector<TrainedOnDevice> train_on(DeviceChoice device, int workers,
                                      const std::filesystem::path& data) {
  const TemporaryFolder output, teachers;
  const std::filesystem::path teacher = teachers / "teacher.safetensors";
  testing::write_teacher(teacher, 16, 16, 9);
  std::vector<TrainedOnDevice> all(static_cast<std::size_t>(workers));
  testing::with_sessions(job_of(device, data, output.path(), teacher), workers,
                         [&](int rank, TrainingSession& session) {
                           all[static_cast<std::size_t>(rank)] = train_one(session);
                         });
  return all;
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected,
                 double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double d = double{found[i]} - double{expected[i]};
    difference += d * d;
    size += double{expected[i]} * double{expected[i]};
  }
  EXPECT_LT(std::sqrt(difference / size), tolerance);
}

TEST(TrainingOnGpus, FollowsTheCpusStepByStep) {
  const TemporaryFolder data;
  testing::write_insightface({.folder = data.path(), .identities = 9, .images_per_identity = 5});
  static_cast<void>(transports());  // makes as many emulated GPUs as there are workers
  const std::vector<DeviceInfo> devices = cuda_devices();
  if (!devices.front().available) GTEST_SKIP() << "no GPU: " << devices.front().detail;
  const int workers = std::min(kMostGpuTrainingWorkers, static_cast<int>(devices.size()));
  const std::vector<TrainedOnDevice> cpus = train_on(DeviceChoice::kCpu, workers, data.path());
  const std::vector<TrainedOnDevice> gpus = train_on(DeviceChoice::kCuda, workers, data.path());
  // A real GPU rounds differently. Numbers near 0 change their sign before a PReLU
  // (tests/model/networks/gpu_test.cc), and gradients then differ by up to 1e-2.
  const double looser = on_emulated_gpu() ? 1 : 100;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    for (std::size_t step = 0; step < kGpuTrainingSteps; ++step) {
      EXPECT_NEAR(gpus[rank].losses[step] / cpus[rank].losses[step], 1, 1e-5 * looser);
      EXPECT_NEAR(gpus[rank].distillation_losses[step] / cpus[rank].distillation_losses[step], 1,
                  1e-4 * looser);
      EXPECT_NEAR(gpus[rank].logits_losses[step] / cpus[rank].logits_losses[step], 1,
                  1e-4 * looser);
      EXPECT_NEAR(gpus[rank].norms[step] / cpus[rank].norms[step], 1, 1e-4 * looser);
    }
    // All steps together change the weights by less than 1 %. So the weights of CPU and GPU differ
    // much less than their gradients.
    expect_near(gpus[rank].weights, cpus[rank].weights, on_emulated_gpu() ? 2e-5 : 1e-4);
    expect_near(gpus[rank].centres, cpus[rank].centres, on_emulated_gpu() ? 2e-5 : 1e-4);
    EXPECT_EQ(gpus[rank].weights, gpus[0].weights);
    EXPECT_EQ(gpus[rank].losses, gpus[0].losses);
    EXPECT_EQ(gpus[rank].distillation_losses, gpus[0].distillation_losses);
  }
}

}  // namespace
}  // namespace pfc
