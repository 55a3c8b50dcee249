// Tests complete workers: a job that loses a worker and continues from memory must have the same
// bits as an undisturbed job.
#include "tests/worker/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <vector>

#include "tests/support/face_folder.h"
#include "tests/support/temporary_folder.h"
#include "worker/train_loop.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct TrainedWorker {
  std::vector<float> weights, statistics, momentum, average, average_statistics;
  std::vector<std::uint8_t> centres, centres_momentum;
  bool operator==(const TrainedWorker&) const = default;
};

std::vector<std::uint8_t> bytes_on_host(Ops& ops, const Tensor& tensor) {
  std::vector<std::uint8_t> bytes(tensor.bytes());
  ops.copy_to_host(bytes.data(), tensor);
  return bytes;
}

class SessionsWithSnapshots : public ::testing::TestWithParam<CentrePrecision> {
 protected:
  using Stores = std::vector<std::unique_ptr<SnapshotStore>>;

  void SetUp() override {
    testing::write_insightface({.folder = data_.path(), .identities = 9, .images_per_identity = 5});
    job_.network = "mbf";
    job_.embedding_size = 16;
    job_.batch_size = 8;
    job_.sample_rate = 0.5;
    job_.centre_precision = GetParam();
    job_.ema_decay = 0.9;
    job_.num_epoch = 5;  // 10 steps of two workers
    job_.num_workers = 1;
    job_.replicate = true;
    job_.snapshot_seconds = 1e-9;
    job_.rec = {data_.path()};
    job_.device = DeviceChoice::kCpu;
    start_processes(2);
  }

  void start_processes(std::size_t workers) {
    stores_.clear();
    for (std::size_t i = 0; i < workers; ++i) start_process();
  }
  void start_process() { stores_.push_back(std::make_unique<SnapshotStore>()); }

  /// Trains one generation. The results are by rank. Rank 1 fails when its signals are requested in
  /// this micro-batch; 0: never.
  std::vector<TrainedWorker> train_in(const std::filesystem::path& output, Generation generation,
                                      int fails_at) {
    job_.output = output;
    MemoryStore meet;
    const int workers = static_cast<int>(stores_.size());
    std::vector<TrainedWorker> trained(stores_.size());
    messages_.assign(stores_.size(), {});
    on_threads(workers, [&](int rank) {
      const auto i = static_cast<std::size_t>(rank);
      int asked = 0;
      AbortSwitch abort_switch;
      TrainingSession session(job_, {.job_id = job_id_,
                                     .membership = {.rank = rank,
                                                    .world_size = workers,
                                                    .generation = generation,
                                                    .local_rank = rank,
                                                    .local_world_size = workers},
                                     .store = &meet,
                                     .stop_requested =
                                         [&] {
                                           if (rank == 1 && ++asked == fails_at)
                                             throw CommError("rank 1 is killed");
                                           return false;
                                         },
                                     .abort_switch = &abort_switch,
                                     .snapshots = stores_[i].get()});
      messages_[i] = session.start_message;
      try {
        train(session, nullptr);
      } catch (...) {
        abort_switch.abort("this worker fails");
        throw;
      }
      Ops& ops = *session.local.ops;
      trained[i] = {
          .weights = testing::on_host(ops, session.trainer->backbone->weights.flat()),
          .statistics = testing::on_host(ops, session.trainer->backbone->state.flat()),
          .momentum = testing::on_host(ops, session.trainer->optimizer.momentum()),
          .average = testing::on_host(ops, session.trainer->average->weights()),
          .average_statistics = testing::on_host(ops, session.trainer->average->state()),
          .centres = bytes_on_host(ops, session.trainer->head->state().centres),
          .centres_momentum = bytes_on_host(ops, session.trainer->head->state().momentum)};
    });
    return trained;
  }

  const TemporaryFolder data_, folder_;
  std::string job_id_ = "job";
  JobConfig job_;
  Stores stores_;
  std::vector<std::string> messages_;
};

TEST_P(SessionsWithSnapshots, ContinueFromMemoryBitIdentically) {
  const std::vector<TrainedWorker> whole = train_in(folder_ / "whole", 1, 0);
  start_processes(2);
  EXPECT_THROW(train_in(folder_ / "parts", 1, 8), CommError);
  stores_[1] = std::make_unique<SnapshotStore>();  // rank 1's process has ended
  const std::vector<TrainedWorker> parts = train_in(folder_ / "parts", 2, 0);
  EXPECT_THAT(messages_[0],
              AllOf(HasSubstr("continued from the copies in memory of step "),
                    HasSubstr("1 of 2 parts from their own worker, 1 from the neighbour")));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(parts[rank].weights, whole[rank].weights);
    EXPECT_EQ(parts[rank].momentum, whole[rank].momentum);
    EXPECT_EQ(parts[rank].average, whole[rank].average);
    EXPECT_EQ(parts[rank].centres, whole[rank].centres);
    EXPECT_EQ(parts[rank].centres_momentum, whole[rank].centres_momentum);
  }
  EXPECT_EQ(parts[0].statistics, whole[0].statistics) << "the saved model has rank 0's statistics";
  EXPECT_EQ(parts[0].average_statistics, whole[0].average_statistics);
}

TEST_P(SessionsWithSnapshots, ContinueFromANewerCheckpoint) {
  job_.snapshot_seconds = 1e6;  // takes only one snapshot, after the first step
  job_.save_every_steps = 2;
  EXPECT_THROW(train_in(folder_ / "parts", 1, 8), CommError);
  stores_[1] = std::make_unique<SnapshotStore>();
  train_in(folder_ / "parts", 2, 0);
  EXPECT_THAT(messages_[0], ::testing::StartsWith("resumed from"));
}

// The first generation may have failed before it looked into the output folder.
TEST_P(SessionsWithSnapshots, DoNotContinueFromACheckpointOfAnotherJob) {
  train_in(folder_ / "parts", 1, 0);
  job_id_ = "other";
  start_processes(2);
  EXPECT_THROW(train_in(folder_ / "parts", 2, 0), InputError);
  job_.resume = true;
  train_in(folder_ / "parts", 2, 0);
  EXPECT_THAT(messages_[0], ::testing::StartsWith("resumed from"));
}

TEST_P(SessionsWithSnapshots, ReportWhyTheyCannotContinueFromMemory) {
  start_processes(3);
  EXPECT_THROW(train_in(folder_ / "parts", 1, 5), CommError);
  stores_.resize(1);  // two neighbouring workers are lost
  start_process();
  start_process();
  train_in(folder_ / "parts", 2, 0);
  EXPECT_THAT(messages_[0],
              AllOf(HasSubstr("the copies in memory of step "), HasSubstr("lack the rows of rank"),
                    HasSubstr("training begins at step 1")));
}

INSTANTIATE_TEST_SUITE_P(All, SessionsWithSnapshots,
                         ::testing::Values(CentrePrecision::kFp32, CentrePrecision::kInt8),
                         [](const auto& param) {
                           return param.param == CentrePrecision::kFp32 ? "Fp32" : "Int8";
                         });

}  // namespace
}  // namespace pfc
