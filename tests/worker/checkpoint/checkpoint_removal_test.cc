#include "worker/checkpoint/checkpoint_removal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tests/worker/checkpoint/checkpoint_fixture.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// A file system on which removing a folder blocks until allow(), or a minute.
class SlowDisk {
 public:
  void remove(const std::filesystem::path& folder) {
    std::unique_lock lock(mutex_);
    timed_out_ |= !allowed_.wait_for(lock, std::chrono::minutes(1), [&] { return is_allowed_; });
    std::filesystem::remove_all(folder);
  }
  void allow() {
    const std::lock_guard lock(mutex_);
    is_allowed_ = true;
    allowed_.notify_all();
  }
  /// Returns whether any thread waited for a removal before allow().
  [[nodiscard]] bool timed_out() const {
    const std::lock_guard lock(mutex_);
    return timed_out_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable allowed_;
  // Guarded by mutex_.
  bool is_allowed_ = false;
  bool timed_out_ = false;
};

class OldCheckpoints : public Checkpoint {
 protected:
  RemoveFolder slowly() {
    return [this](const std::filesystem::path& folder) { disk_.remove(folder); };
  }
  SlowDisk disk_;
};

TEST_F(OldCheckpoints, DelayNeitherPublicationNorLaterSteps) {
  Writers all = writers(1, 1, 1, slowly());
  save(all, 5);
  save(all, 6);
  EXPECT_THAT(entries(), ElementsAre(StartsWith(".step-000000005.job.g1.old-"), "step-000000006"));
  begin(all, 0, 7);
  EXPECT_FALSE(disk_.timed_out());
  expect_loads(1, 6);
  disk_.allow();
  all.clear();
  EXPECT_THAT(entries(), ElementsAre("step-000000006"));
}

TEST_F(OldCheckpoints, AreRemovedBeforeTheNextOneNeedsTheirSpace) {
  bool next_has_begun = true;
  Writers all = writers(1, 1, 1, [&](const std::filesystem::path& folder) {
    disk_.remove(folder);
    next_has_begun = std::filesystem::exists(output_ / ".step-000000007.job.g1.tmp");
  });
  save(all, 5);
  save(all, 6);
  begin(all, 0, 7);
  disk_.allow();
  all[0]->wait();
  EXPECT_FALSE(next_has_begun);
}

TEST_F(OldCheckpoints, AreReplacedWithoutWaitingIfOfTheSameStep) {
  Writers all = writers(1, 1, 3, slowly());
  save(all, 5);
  save(all, 5);
  EXPECT_FALSE(disk_.timed_out());
  EXPECT_THAT(entries(), SizeIs(2));
  disk_.allow();
  all.clear();
  EXPECT_THAT(entries(), ElementsAre("step-000000005"));
}

TEST_F(OldCheckpoints, DoNotEndTheJobIfTheyCannotBeRemoved) {
  const RemoveFolder never = [](const std::filesystem::path& folder) {
    throw std::filesystem::filesystem_error("remove", folder,
                                            std::make_error_code(std::errc::io_error));
  };
  Writers all = writers(1, 1, 1, never);
  for (std::int64_t step = 5; step <= 7; ++step) save(all, step);
  all.clear();
  expect_loads(1, 7);
  EXPECT_THAT(entries(), SizeIs(3));
  Writers next_job = writers(1, 1, 1, never);  // records what it removes
  save(next_job, 8);
  next_job.clear();
  expect_loads(1, 8);
  EXPECT_THAT(entries(), SizeIs(4));
  writers(1, 2).clear();
  EXPECT_THAT(entries(), ElementsAre("step-000000008"));
}

TEST_F(OldCheckpoints, AreRemovedByTheNextJobAfterACrash) {
  Writers all = writers(1);
  save(all, 5);
  const auto half = output_ / ".step-000000004.g1.old-3.tmp";
  std::filesystem::create_directories(half);
  for (const char* name : {"backbone.safetensors", "centres-00001-of-00004.safetensors",
                           "part-00003.json", "manifest.json.tmp"}) {
    std::ofstream(half / name) << "x";
  }
  expect_loads(1, 5);
  writers(1, 2).clear();
  EXPECT_THAT(entries(), ElementsAre("step-000000005"));
}

TEST_F(OldCheckpoints, AreKeptIfTheyHaveForeignFiles) {
  Writers all = writers(1, 1, 1);
  save(all, 5);
  std::ofstream(output_ / "step-000000005" / "notes.txt") << "the best so far";
  save(all, 6);
  std::filesystem::create_directory(output_ / "step-000000006" / "exported");
  save(all, 7);
  save(all, 8);
  all.clear();
  EXPECT_THAT(entries(), ElementsAre("step-000000005", "step-000000006", "step-000000008"));
  EXPECT_TRUE(std::filesystem::exists(output_ / "step-000000005" / "notes.txt"));
  EXPECT_NO_THROW(
      check_checkpoint_fits(output_ / "step-000000005", {.network = {},
                                                         .embedding_size = WorldOptions{}.dimension,
                                                         .classes = WorldOptions{}.classes}));
}

TEST_F(OldCheckpoints, AreSetAsideIfOfTheSameStepWithForeignFiles) {
  Writers all = writers(1);
  save(all, 5);
  std::ofstream(output_ / "step-000000005" / "notes.txt") << "the best so far";
  save(all, 5);
  all.clear();
  EXPECT_TRUE(std::filesystem::exists(output_ / "step-000000005.set-aside-1" / "notes.txt"));
}

TEST_F(OldCheckpoints, DoNotIncludeForeignFoldersWithTemporaryNames) {
  std::filesystem::create_directories(output_ / ".step-000000004.tmp" / "photos");
  std::ofstream(output_ / ".step-000000004.tmp" / "photos" / "face.jpg") << "x";
  writers(1).clear();
  EXPECT_TRUE(std::filesystem::exists(output_ / ".step-000000004.tmp" / "photos" / "face.jpg"));
}

}  // namespace
}  // namespace pfc
