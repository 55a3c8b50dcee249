#include "common/files/append_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/other_user.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

TEST(AppendFile, KeepsExistingContent) {
  const TemporaryFolder folder;
  AppendFile(folder / "log").write_line("one");
  AppendFile(folder / "log").write_line("two");
  std::ifstream in(folder / "log");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "one\ntwo\n");
}

TEST(AppendFile, RejectsFifosAndDevicesWithoutWaiting) {
  const TemporaryFolder folder;
  const auto refusal = [&](const char* name) {
    return message_of<StorageError>([&] { AppendFile log(folder / name); });
  };
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(refusal("fifo"), (folder / "fifo").string() +
                                 ": not a regular file but a FIFO; move it away, because a file of "
                                 "this name will be written");
  std::filesystem::create_symlink("/dev/null", folder / "device");
  EXPECT_THAT(refusal("device"), HasSubstr("device: not a regular file but a device; "));
  std::filesystem::create_directory(folder / "folder");
  EXPECT_THAT(refusal("folder"), HasSubstr("folder: not a regular file but a folder; "));
}

TEST(AppendFile, CreatesTheMissingTargetOfALink) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("elsewhere", folder / "log");
  AppendFile(folder / "log").write_line("one");
  EXPECT_EQ(std::filesystem::file_size(folder / "elsewhere"), 4u);
}

TEST(AppendFile, NamesTheFileAndTheReason) {
  const TemporaryFolder folder;
  AppendFile log(folder / "log");
  {
    const testing::OtherUser nobody;
    EXPECT_THAT(message_of<StorageError>([&] { AppendFile denied(folder / "log"); }),
                AllOf(HasSubstr((folder / "log").string()), HasSubstr("Permission denied")));
  }
  const FileSizeLimit limit(4096);
  EXPECT_THAT(message_of<StorageError>([&] { log.write_line(std::string(5000, 'x')); }),
              AllOf(HasSubstr((folder / "log").string()), HasSubstr("File too large"),
                    HasSubstr("4.00 KiB for a file (ulimit -f)")));
}

}  // namespace
}  // namespace pfc
