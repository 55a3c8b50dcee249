#include "worker/checkpoint/output_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/files/fd.h"
#include "tests/worker/checkpoint/checkpoint_fixture.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

/// A process that holds the lock until it is killed.
class OtherJob {
 public:
  explicit OtherJob(const std::filesystem::path& output) {
    int ready[2];
    check(::pipe(ready) == 0, "pipe");
    const Fd reading(ready[0]), writing(ready[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      const OutputLock lock(output, "other", 0ms);
      (void)!::write(ready[1], "x", 1);
      while (true) ::pause();
    }
    char byte = 0;
    check(::read(ready[0], &byte, 1) == 1, "the other job did not get the lock");
  }
  ~OtherJob() { kill(); }
  OtherJob(const OtherJob&) = delete;
  OtherJob& operator=(const OtherJob&) = delete;

  void kill() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

class OutputLockTest : public Checkpoint {};

TEST_F(OutputLockTest, IsHeldByOneJobAtATime) {
  const OtherJob other(output_);
  EXPECT_THAT(message_of<InputError>([&] { const OutputLock lock(output_, "mine", 0ms); }),
              AllOf(HasSubstr("output: " + output_.string() + " is in use by job other (host "),
                    HasSubstr("pid " + std::to_string(other.pid()) + ")"),
                    HasSubstr("choose another folder")));
}

TEST_F(OutputLockTest, ThrowsCommErrorIfAnEarlierWorkerOfThisJobHasIt) {
  const OtherJob earlier(output_);
  EXPECT_THAT(message_of<CommError>([&] { const OutputLock lock(output_, "other", 0ms); }),
              AllOf(HasSubstr("is still held by an earlier worker of this job: job other (host "),
                    HasSubstr("pid " + std::to_string(earlier.pid()) + ")")));
}

TEST_F(OutputLockTest, IsFreeWhenTheOtherJobWasKilled) {
  OtherJob other(output_);
  other.kill();
  const OutputLock lock(output_, "mine", 0ms);
  EXPECT_TRUE(lock.exclusive());
  lock.expect_held();
}

TEST_F(OutputLockTest, WaitsForAJobThatIsStillEnding) {
  OtherJob other(output_);
  auto taken = std::async(std::launch::async, [&] { const OutputLock lock(output_, "mine", 60s); });
  other.kill();
  EXPECT_NO_THROW(taken.get());
}

TEST_F(OutputLockTest, CreatesTheFolder) {
  const OutputLock lock(output_ / "deeper" / "still", "mine", 0ms);
  lock.expect_held();
  EXPECT_THROW(OutputLock("/proc/no/such", "mine", 0ms), StorageError);
}

TEST_F(OutputLockTest, RejectsAFifoInThePlaceOfItsFile) {
  ASSERT_EQ(::mkfifo((output_ / ".lock").c_str(), 0600), 0);
  EXPECT_THAT(message_of<StorageError>([&] { const OutputLock lock(output_, "mine", 0ms); }),
              HasSubstr(".lock: not a regular file but a FIFO"));
}

TEST_F(OutputLockTest, DetectsThatTheFolderWasRemovedOrReplaced) {
  const OutputLock lock(output_, "mine", 0ms);
  std::filesystem::remove_all(output_);
  EXPECT_THAT(message_of<StorageError>([&] { lock.expect_held(); }),
              AllOf(HasSubstr(output_.string() + " was removed or replaced"),
                    HasSubstr("No such file or directory")));
  const OtherJob other(output_);
  EXPECT_THAT(message_of<StorageError>([&] { lock.expect_held(); }),
              HasSubstr("was removed or replaced"));
}

TEST_F(OutputLockTest, DetectsThatAnotherJobHasTakenTheFolder) {
  const OutputLock lock(output_, "mine", 0ms);
  std::ofstream(output_ / ".lock") << R"({"job_id": "other", "host": "b", "pid": 7})";
  EXPECT_THAT(message_of<StorageError>([&] { lock.expect_held(); }),
              HasSubstr("was taken over by job other (host b, pid 7)"));
}

TEST_F(OutputLockTest, IsTakenAgainInARecreatedFolder) {
  OutputLock lock(output_, "mine", 0ms);
  std::filesystem::remove_all(output_);
  lock.take_again_if_removed();
  lock.expect_held();
}

TEST_F(OutputLockTest, IsTakenAgainIfOnlyItsFileWasRemoved) {
  OutputLock lock(output_, "mine", 0ms);
  std::filesystem::remove(output_ / ".lock");
  EXPECT_THROW(lock.expect_held(), StorageError);
  lock.take_again_if_removed();
  lock.expect_held();
}

TEST_F(OutputLockTest, IsNotTakenFromAJobThatHasRecreatedTheFolder) {
  OutputLock lock(output_, "mine", 0ms);
  std::filesystem::remove_all(output_);
  const OtherJob other(output_);
  lock.take_again_if_removed();
  EXPECT_THROW(lock.expect_held(), StorageError);
  EXPECT_THAT(message_of<InputError>([&] { const OutputLock again(output_, "third", 0ms); }),
              HasSubstr("in use by job other"));
}

TEST_F(OutputLockTest, PreventsPublicationIfHeldByAnotherJob) {
  OutputLock lock(output_, "mine", 0ms);
  const auto writer = make_checkpoint_writer(
      {.output = output_, .job_id = "mine", .lock = &lock, .membership = {}, .global_batch = 1});
  SmallWorker worker(0, 1);
  writer->begin(worker.state(), testing::trained_with(5, 1), worker.job(),
                CheckpointMode::kInPlace);
  std::ofstream(output_ / ".lock") << R"({"job_id": "other"})";
  EXPECT_THROW(writer->publish(5), StorageError);
  EXPECT_FALSE(newest_checkpoint(output_).has_value());
}

TEST_F(Checkpoint, NeverMixesPartsOfTwoJobsInOneFolder) {
  const auto writer = [&](const char* job, int rank) {
    return make_checkpoint_writer({.output = output_,
                                   .job_id = job,
                                   .membership = {.rank = rank, .world_size = 2},
                                   .global_batch = 1});
  };
  const auto a = writer("a", 1);
  const auto b = writer("b", 0);
  for (const auto* one : {&a, &b}) {
    SmallWorker worker(one == &a ? 1 : 0, 2);
    (*one)->begin(worker.state(), testing::trained_with(5, 1), worker.job(),
                  CheckpointMode::kInPlace);
  }
  EXPECT_THAT(message_of<StorageError>([&] { b->publish(5); }),
              HasSubstr("the part of rank 1 is missing"));
  EXPECT_THAT(entries(), ElementsAre(".step-000000005.a.g1.tmp", ".step-000000005.b.g1.tmp"));
}

}  // namespace
}  // namespace pfc
