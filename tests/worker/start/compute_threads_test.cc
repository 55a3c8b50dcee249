// Tests how many threads the workers use when a job continues.
#include "worker/start/compute_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"
#include "tests/worker/trained.h"
#include "worker/checkpoint/checkpoint_format.h"

namespace pfc {
namespace {

namespace format = checkpoint_format;
using testing::trained_with;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

WorkerThreads worker(int share, std::int64_t images = 0, std::vector<int> before = {}) {
  return {.host = "b", .share = share, .images = images, .before = std::move(before)};
}

TEST(ComputeThreads, AreTheirShareOfTheCoresWithoutASavedState) {
  const ChosenThreads chosen = choose_threads(std::vector{worker(4), worker(2)});
  EXPECT_THAT(chosen.of_rank, ElementsAre(4, 2));
  EXPECT_EQ(chosen.message, "");
}

TEST(ComputeThreads, ComeFromTheNewestStateWithTheSameNumberOfWorkers) {
  const ChosenThreads chosen = choose_threads(
      std::vector{worker(4, 100, {1, 1}), worker(4, 200, {4, 3}), worker(4, 300, {2})});
  EXPECT_THAT(chosen.of_rank, ElementsAre(4, 4, 4)) << "no state has three workers";
  const ChosenThreads two =
      choose_threads(std::vector{worker(4, 100, {1, 1}), worker(4, 200, {4, 3})});
  EXPECT_THAT(two.of_rank, ElementsAre(4, 3));
  EXPECT_FALSE(two.differ);
  EXPECT_THAT(two.message, AllOf(HasSubstr("worker 1 on host b computes with 3 threads as before"),
                                 HasSubstr("its share of the cores is 4")));
}

TEST(ComputeThreads, AreLimitedToTheShareOfTheCores) {
  const ChosenThreads chosen = choose_threads(std::vector{worker(2, 100, {4})});
  EXPECT_THAT(chosen.of_rank, ElementsAre(2));
  EXPECT_TRUE(chosen.differ);
  EXPECT_THAT(chosen.message, AllOf(HasSubstr("computes with 2 threads instead of 4 as before"),
                                    HasSubstr("its share of the cores is smaller"),
                                    HasSubstr("may differ in their last bits")));
}

TEST(ComputeThreads, FollowOmpNumThreads) {
  WorkerThreads chosen_by_person = worker(4, 100, {2});
  chosen_by_person.is_chosen = true;
  const ChosenThreads chosen = choose_threads(std::vector{chosen_by_person});
  EXPECT_THAT(chosen.of_rank, ElementsAre(4));
  EXPECT_THAT(chosen.message, HasSubstr("because OMP_NUM_THREADS is set"));
}

TEST(ComputeThreads, DoNotMatterOnAGpu) {
  const ChosenThreads chosen =
      choose_threads(std::vector{worker(0, 100, {2}), worker(3, 100, {0, 3})});
  EXPECT_THAT(chosen.of_rank, ElementsAre(0, 3));
  EXPECT_EQ(chosen.message, "");
}

class ThreadsOfASavedState : public ::testing::Test {
 protected:
  ThreadsOfASavedState() { job_.output = folder_.path(); }
  void writes(std::int64_t step, const std::string& job_id, std::vector<int> threads) {
    const auto checkpoint = job_.output / format::folder_name(step);
    std::filesystem::create_directory(checkpoint);
    format::write_manifest(checkpoint, {.identity = {.job_id = job_id,
                                                     .trained = trained_with(step, 4),
                                                     .world_size = 1,
                                                     .global_batch = 4,
                                                     .embedding_size = 1,
                                                     .threads = std::move(threads),
                                                     .job = nlohmann::json::object()},
                                        .files = {}});
  }
  [[nodiscard]] std::vector<int> threads(Rank rank,
                                         const SnapshotStore* snapshots = nullptr) const {
    return threads_of_saved_state(job_, "own", rank, snapshots).before;
  }

  TemporaryFolder folder_;
  JobConfig job_;
};

TEST_F(ThreadsOfASavedState, ComeFromTheJobsNewestCheckpoint) {
  EXPECT_THAT(threads(0), ElementsAre());
  writes(1, "own", {3});
  writes(2, "own", {2});
  writes(3, "other", {1});
  EXPECT_THAT(threads(0), ElementsAre(2));
  job_.resume = true;
  EXPECT_THAT(threads(0), ElementsAre(1));
  EXPECT_THAT(threads(1), ElementsAre(2)) << "the job resumes from the folder of rank 0";
}

TEST_F(ThreadsOfASavedState, ComeFromANewerSnapshot) {
  writes(2, "own", {2});
  SnapshotStore store;
  Snapshot& snapshot = store.make();
  snapshot.threads = {1};
  snapshot.id.trained = trained_with(1, 4);
  EXPECT_THAT(threads(0, &store), ElementsAre(2));
  snapshot.id.trained = trained_with(3, 4);
  EXPECT_THAT(threads(0, &store), ElementsAre(1));
}

}  // namespace
}  // namespace pfc
