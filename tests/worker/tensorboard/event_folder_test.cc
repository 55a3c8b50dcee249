#include "worker/tensorboard/event_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/tensorboard/read_events.h"
#include "worker/tensorboard/event_file.h"
#include "worker/tensorboard/summaries.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<std::int64_t>;

class EventFolder : public ::testing::Test {
 protected:
  /// Writes the file of a process that trains these steps.
  fs::path write(std::int64_t first_step, const Steps& steps) {
    fs::path path = next_event_file(board_);
    EventFile file(path, first_step);
    for (const std::int64_t step : steps) {
      tensorboard::Summary summary;
      add_scalar(summary, "train/loss", static_cast<double>(step));
      file.write(step, summary);
    }
    return path;
  }
  static void append(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::app | std::ios::binary) << bytes;
  }

  const TemporaryFolder output_;
  const fs::path board_ = output_ / "tensorboard";
};

TEST_F(EventFolder, FilesStartWithTheirVersionAndTheFirstStep) {
  const auto events = testing::read_events(write(41, {}));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(events[1].step(), 41);
  EXPECT_GT(events[1].wall_time(), 1.7e9);
}

TEST_F(EventFolder, NamesOfLaterFilesSortAfterThoseOfEarlierFiles) {
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) names.push_back(write(1, {i + 1}).filename().string());
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 12U);
  EXPECT_THAT(names[0],
              ::testing::MatchesRegex(R"(events\.out\.tfevents\.[0-9]{10}\..+\.[0-9]+\.pfc)"));
}

TEST_F(EventFolder, DropsStepsThatWillBeTrainedAgain) {
  const fs::path file = write(1, {10, 20, 30, 40});
  drop_orphaned_events(board_, 21);
  EXPECT_EQ(testing::steps_of(file), (Steps{10, 20}));
  drop_orphaned_events(board_, 21);
  EXPECT_EQ(testing::steps_of(file), (Steps{10, 20}));
}

TEST_F(EventFolder, RemovesFilesWithoutEventsAndTruncatesTheFileBeforeThem) {
  const fs::path first = write(1, {10, 20, 30});
  const fs::path second = write(21, {30, 40});
  const fs::path third = write(31, {});
  drop_orphaned_events(board_, 16);
  EXPECT_EQ(testing::steps_of(first), (Steps{10}));
  EXPECT_FALSE(fs::exists(second));
  EXPECT_FALSE(fs::exists(third));
}

TEST_F(EventFolder, DropsAnIncompleteEvent) {
  const fs::path file = write(1, {10, 20});
  const auto whole = fs::file_size(file);
  const auto bytes = testing::read_file(file);
  for (std::uint64_t size = whole - 1; size > whole - 20; --size) {
    testing::write_file(file, std::span(bytes).first(size));
    drop_orphaned_events(board_, 1000);
    EXPECT_EQ(testing::steps_of(file), (Steps{10})) << size;
  }
}

TEST_F(EventFolder, DropsADamagedEventAndAllLaterEvents) {
  const fs::path file = write(1, {10, 20, 30});
  auto bytes = testing::read_file(file);
  const fs::path shorter = write(1, {10, 20});
  const auto one = bytes.size() - fs::file_size(shorter);
  fs::remove(shorter);
  bytes[bytes.size() - one - 8] ^= std::byte{1};  // in the second event
  testing::write_file(file, bytes);
  ::testing::internal::CaptureStdout();
  drop_orphaned_events(board_, 1000);
  const std::string told = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(testing::steps_of(file), (Steps{10}));
  EXPECT_THAT(told, ::testing::HasSubstr("the rest is dropped"));
}

TEST_F(EventFolder, DropsZeroBytesAfterAPowerFailure) {
  const fs::path file = write(1, {10});
  append(file, std::string(4096, '\0'));
  drop_orphaned_events(board_, 1000);
  EXPECT_EQ(testing::steps_of(file), (Steps{10}));
}

TEST_F(EventFolder, KeepsOtherFiles) {
  fs::create_directories(board_);
  for (const char* name : {"events.out.tfevents.1.host.7", "notes.txt"}) {
    testing::write_file(board_ / name, "mine");
  }
  drop_orphaned_events(board_, 1);
  EXPECT_EQ(fs::file_size(board_ / "events.out.tfevents.1.host.7"), 4U);
  EXPECT_EQ(fs::file_size(board_ / "notes.txt"), 4U);
}

TEST_F(EventFolder, NamesAFolderThatCannotBeCreated) {
  testing::write_file(board_, "a file");
  drop_orphaned_events(board_, 100);
  EXPECT_THAT(testing::message_of<StorageError>([&] { next_event_file(board_); }),
              ::testing::StartsWith(board_.string() + ": "));
}

}  // namespace
}  // namespace pfc
