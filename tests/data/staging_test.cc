#include "data/staging.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <thread>

#include "common/error.h"
#include "common/files/fd.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::message_of;
using testing::read_file;
using testing::write_file;

class Staging : public ::testing::Test {
 protected:
  Staging() {
    fs::create_directories(data_);
    fs::create_directories(fast_);
    put("train.rec", 5'000'000);
    put("train.idx", 100);
    put("property", 20);
    put("lfw.bin", 1000);
  }
  void put(const std::string& name, std::size_t bytes, int value = 7) {
    write_file(data_ / name, std::vector<std::byte>(bytes, static_cast<std::byte>(value)));
  }

  TemporaryFolder folder_;
  fs::path data_ = folder_ / "data", fast_ = folder_ / "fast";
};

TEST_F(Staging, CopiesTheFilesOfTheDataSet) {
  std::vector<std::string> told;
  const fs::path there =
      stage_dataset(data_, fast_, [&](const std::string& what) { told.push_back(what); });
  EXPECT_EQ(there, staged_folder(data_, fast_));
  for (const char* name : {"train.rec", "train.idx", "property"}) {
    EXPECT_EQ(read_file(there / name), read_file(data_ / name));
  }
  EXPECT_FALSE(fs::exists(there / "lfw.bin"));
  EXPECT_THAT(told.front(), HasSubstr("train.rec: 83 %"));
}

/// Listing a network folder with many shards is slow, so it must happen only once.
TEST_F(Staging, ListsTheDataOnce) {
  fs::create_directories(folder_ / "shards");
  for (const char* name : {"a.tar", "b.tar"}) {
    write_file(folder_ / "shards" / name, std::vector<std::byte>(1000));
  }
  const Fd watch(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  // The kernel reports equal consecutive events once, so events for closing must separate them.
  const int events_of = inotify_add_watch(watch, (folder_ / "shards").c_str(), IN_OPEN | IN_CLOSE);
  ASSERT_GE(events_of, 0);
  stage_dataset(folder_ / "shards", fast_);
  alignas(inotify_event) std::array<char, 65536> events{};
  const ssize_t bytes = ::read(watch, events.data(), events.size());
  int lists = 0;
  for (ssize_t at = 0; at < bytes;) {
    const auto* event = reinterpret_cast<const inotify_event*>(events.data() + at);
    lists += (event->mask & IN_ISDIR) != 0 && (event->mask & IN_OPEN) != 0 ? 1 : 0;
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  EXPECT_EQ(lists, 1);
}

TEST_F(Staging, CheckNamesAMissingFolderAndTooLittleSpace) {
  EXPECT_NO_THROW(check_staging(std::vector{data_}, fast_));
  EXPECT_TRUE(fs::is_empty(fast_));
  EXPECT_THAT(message_of<InputError>([&] { check_staging(std::vector{data_}, folder_ / "none"); }),
              HasSubstr("none: no such folder on this host"));
  fs::resize_file(data_ / "train.rec", std::uint64_t{1} << 42);  // sparse
  EXPECT_THAT(message_of<InputError>([&] { check_staging(std::vector{data_}, fast_); }),
              HasSubstr("and the data need 4.00 TiB"));
}

TEST_F(Staging, DoesNotCopyUnchangedDataAgain) {
  const fs::path there = stage_dataset(data_, fast_);
  const auto inode = [&] { return fs::hard_link_count(there / "train.rec"); };
  ASSERT_EQ(inode(), 1u);
  // A second link, with which the test notices that the file was replaced.
  fs::create_hard_link(there / "train.rec", folder_ / "kept");
  stage_dataset(data_, fast_);
  EXPECT_EQ(inode(), 2u);
}

TEST_F(Staging, CopiesChangedFilesAgain) {
  const fs::path there = stage_dataset(data_, fast_);
  put("train.rec", 5'000'000, 8);
  fs::last_write_time(data_ / "train.rec",
                      fs::last_write_time(data_ / "train.rec") + std::chrono::seconds(2));
  stage_dataset(data_, fast_);
  EXPECT_EQ(read_file(there / "train.rec"), read_file(data_ / "train.rec"));
}

TEST_F(Staging, RemovesFilesThatAreNotInTheDataSet) {
  const fs::path there = stage_dataset(data_, fast_);
  put("identities.txt", 10);
  stage_dataset(data_, fast_);
  EXPECT_TRUE(fs::exists(there / "identities.txt"));
  fs::remove(data_ / "identities.txt");
  fs::remove(data_ / "train.idx");
  put("property", 21);
  stage_dataset(data_, fast_);
  EXPECT_FALSE(fs::exists(there / "identities.txt"));
  EXPECT_FALSE(fs::exists(there / "train.idx"));
  EXPECT_EQ(read_file(there / "property").size(), 21u);
}

/// An incomplete copy takes up space that the complete copy needs.
TEST_F(Staging, RemovesFilesOfAnEarlierRun) {
  const fs::path there = stage_dataset(data_, fast_);
  write_file(there / "train.rec.part", "half");
  fs::resize_file(data_ / "train.rec", std::uintmax_t{1} << 43);
  EXPECT_THROW(stage_dataset(data_, fast_), InputError);
  EXPECT_FALSE(fs::exists(there / "train.rec.part"));
}

TEST_F(Staging, KeepsForeignFiles) {
  const fs::path there = stage_dataset(data_, fast_);
  write_file(there / "notes.txt", "a person's");
  fs::create_directory(there / "photos.rec");
  stage_dataset(data_, fast_);
  EXPECT_TRUE(fs::exists(there / "notes.txt"));
  EXPECT_TRUE(fs::exists(there / "photos.rec"));
  EXPECT_THAT(message_of<StorageError>([&] { remove_staged(data_, fast_); }),
              HasSubstr("contains notes.txt, which pfc did not make"));
  EXPECT_TRUE(fs::exists(there / "train.rec"));
  write_file(there / "train.lst", "0\t0\ta.jpg\n");
  EXPECT_THAT(message_of<InputError>([&] { stage_dataset(data_, fast_); }),
              HasSubstr("train.lst: was not staged by pfc"));
}

TEST_F(Staging, LeavesNoPartialFileWhenInterrupted) {
  struct Interrupt {};
  EXPECT_THROW(stage_dataset(data_, fast_, [](const std::string&) { throw Interrupt(); }),
               Interrupt);
  const fs::path there = staged_folder(data_, fast_);
  EXPECT_FALSE(fs::exists(there / "train.rec"));
  EXPECT_FALSE(fs::exists(there / "train.rec.part"));
  EXPECT_EQ(read_file(stage_dataset(data_, fast_) / "train.rec"), read_file(data_ / "train.rec"));
}

TEST_F(Staging, RejectsDataThatChangeDuringTheCopy) {
  const auto change = [&](const std::string& what) {
    if (what.ends_with("83 %")) put("train.rec", 6'000'000, 9);
  };
  EXPECT_THAT(message_of<StorageError>([&] { stage_dataset(data_, fast_, change); }),
              HasSubstr("data/train.rec: has changed while it was staged"));
  EXPECT_FALSE(fs::exists(staged_folder(data_, fast_) / "train.rec"));
}

TEST_F(Staging, KeepsTheOrderOfShardsWithEqualNames) {
  for (int i = 9; i < 11; ++i) {
    fs::create_directories(folder_ / ("part" + std::to_string(i)));
    write_file(folder_ / ("part" + std::to_string(i)) / "s.tar",
               std::string(static_cast<std::size_t>(i), 'x'));
  }
  const fs::path there = stage_dataset(folder_ / "part{9..10}" / "s.tar", fast_);
  std::vector<fs::path> shards;
  for (const auto& entry : fs::directory_iterator(there)) {
    if (entry.path().extension() == ".tar") shards.push_back(entry.path());
  }
  std::ranges::sort(shards);
  ASSERT_EQ(shards.size(), 2u);
  EXPECT_EQ(fs::file_size(shards[0]), 9u);
  EXPECT_EQ(fs::file_size(shards[1]), 10u);
}

TEST_F(Staging, CopiesTheNamesNextToShards) {
  const fs::path shards = folder_ / "shards";
  fs::create_directories(shards);
  write_file(shards / "s.tar", "x");
  write_file(shards / "identities.txt", "Ada\n");
  EXPECT_TRUE(fs::exists(stage_dataset(shards, fast_) / "identities.txt"));
  const fs::path shard = stage_dataset(shards / "s.tar", fast_);
  EXPECT_EQ(shard.filename(), "000000-s.tar");
  EXPECT_TRUE(fs::exists(shard.parent_path() / "identities.txt"));
}

TEST_F(Staging, IgnoresATrailingSlash) {
  EXPECT_EQ(staged_folder(data_ / "", fast_), staged_folder(data_, fast_));
}

TEST_F(Staging, RemovalWaitsForACopyInProgress) {
  EXPECT_FALSE(remove_staged(data_, fast_));
  const fs::path there = stage_dataset(data_, fast_);
  std::optional<std::jthread> remover;
  put("property", 21);
  const auto remove_meanwhile = [&](const std::string& what) {
    if (what.starts_with("waiting") || remover) return;
    remover.emplace([&] { EXPECT_TRUE(remove_staged(data_, fast_)); });
  };
  stage_dataset(data_, fast_, remove_meanwhile);
  remover.reset();  // waits for the thread
  EXPECT_FALSE(fs::exists(there));
}

TEST_F(Staging, ReturnsTheCopiedFileIfAFileWasNamed) {
  put("other.rec", 10);
  const fs::path there = stage_dataset(data_ / "other.rec", fast_);
  EXPECT_EQ(there.filename(), "other.rec");
  EXPECT_TRUE(fs::exists(there));
}

TEST_F(Staging, ConcurrentProcessesMakeOneCopy) {
  std::atomic<int> copying = 0, most = 0;
  const auto stage = [&] {
    bool copies = false;
    stage_dataset(data_, fast_, [&](const std::string& what) {
      if (!what.starts_with("staging") || copies) return;
      copies = true;
      ++copying;
      most = std::max(most.load(), copying.load());
    });
  };
  std::vector<std::jthread> crew;
  for (int i = 0; i < 4; ++i) crew.emplace_back(stage);
  crew.clear();
  EXPECT_EQ(copying, 1);
}

TEST_F(Staging, CopiesTheDataThatExistAfterWaitingForAnotherCopy) {
  const fs::path there = stage_dataset(data_, fast_);
  const Fd other(::open((there / "lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  stage_dataset(data_, fast_, [&](const std::string& what) {
    if (!what.starts_with("waiting")) return;
    put("property", 21, 9);
    ::flock(other, LOCK_UN);
  });
  EXPECT_EQ(read_file(there / "property"), read_file(data_ / "property"));
}

TEST_F(Staging, RejectsDataThatDoNotFit) {
  fs::resize_file(data_ / "train.rec", std::uintmax_t{1} << 43);  // sparse
  EXPECT_THAT(message_of<InputError>([&] { stage_dataset(data_, fast_); }),
              ::testing::AllOf(HasSubstr("stage: "), HasSubstr(", and the data need 8.00 TiB: "),
                               HasSubstr("name another folder")));
}

TEST_F(Staging, RejectsAFolderOfPeopleAndAMissingTarget) {
  fs::create_directories(folder_ / "people/ada");
  EXPECT_THAT(message_of<InputError>([&] { stage_dataset(folder_ / "people", fast_); }),
              HasSubstr("make one file of these images first with pfcctl data pack"));
  EXPECT_TRUE(fs::is_empty(fast_)) << "a partial copy was left behind";
  EXPECT_THAT(message_of<InputError>([&] { stage_dataset(data_, folder_ / "none"); }),
              HasSubstr("none: no such folder on this host"));
}

TEST_F(Staging, DoesNotUseAFolderOfAnotherUser) {
  const fs::path there = staged_folder(data_, fast_);
  fs::create_directories(folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", there);
  EXPECT_THAT(message_of<InputError>([&] { stage_dataset(data_, fast_); }),
              HasSubstr("is not a folder of this user"));
  EXPECT_TRUE(fs::is_empty(folder_ / "elsewhere"));
}

}  // namespace
}  // namespace pfc
