// Two workers as threads of one process, from the first step to a stop and from there to the end:
// collectives, the reducer's thread, prefetchers, the thread of the steps' inputs and the
// checkpoint writer's, all at work together, so that ThreadSanitizer can watch them.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <vector>

#include "tests/support/face_folder.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/comm/ranks.h"
#include "worker/train_loop.h"

namespace pfc {
namespace {

constexpr int kWorkers = 2;

struct Outcome {
  TrainingEnd end = TrainingEnd::kStopped;
  std::int64_t first_step = 0;
  std::vector<float> weights, centres;
  bool operator==(const Outcome&) const = default;
};

std::vector<float> on_host(Ops& ops, const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  ops.copy_to_host(values.data(), tensor);
  return values;
}

class TwoWorkers : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_insightface({.folder = data_.path(), .identities = 9, .images_per_identity = 5});
  }

  /// Eight steps, a checkpoint after every second one.
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
    job.rec = data_.path();
    job.output = output;
    job.device = DeviceChoice::kCpu;
    return job;
  }

  /// By rank. Rank 1 asks for a stop when it has been asked `stop_after` times; 0: never.
  static std::vector<Outcome> run(const JobConfig& job, int stop_after) {
    MemoryStore store;
    std::vector<Outcome> outcomes(kWorkers);
    on_threads(kWorkers, [&](int rank) {
      std::atomic<int> asked = 0;
      TrainingSession session(job, {.membership = {.rank = rank,
                                                   .world_size = kWorkers,
                                                   .local_rank = rank,
                                                   .local_world_size = kWorkers},
                                    .store = &store,
                                    .stop_requested = [&asked, rank, stop_after] {
                                      return rank == 1 && stop_after > 0 && ++asked >= stop_after;
                                    }});
      Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      outcome.first_step = session.first_step;
      outcome.end = train(session, nullptr);
      outcome.weights = on_host(*session.ops, session.backbone->weights.flat());
      outcome.centres = on_host(*session.ops, session.head->state().centres);
    });
    return outcomes;
  }

  const TemporaryFolder data_, whole_, parts_;
};

TEST_F(TwoWorkers, StopTogetherAndResumeToTheBitsOfARunWithoutAStop) {
  const std::vector<Outcome> whole = run(job(whole_.path()), 0);
  EXPECT_EQ(whole[0].end, TrainingEnd::kCompleted);
  EXPECT_EQ(whole[0].weights, whole[1].weights);

  JobConfig in_parts = job(parts_.path());
  for (const Outcome& stopped : run(in_parts, 3)) EXPECT_EQ(stopped.end, TrainingEnd::kStopped);
  in_parts.resume = true;
  std::vector<Outcome> resumed = run(in_parts, 0);
  for (std::size_t rank = 0; rank < kWorkers; ++rank) {
    EXPECT_GT(resumed[rank].first_step, 1);
    resumed[rank].first_step = 1;
    EXPECT_TRUE(resumed[rank] == whole[rank]) << "rank " << rank;
  }
}

}  // namespace
}  // namespace pfc
