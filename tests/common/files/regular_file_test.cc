#include "common/files/regular_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/files/mapped_file.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::write_file;

class RegularFiles : public ::testing::Test {
 protected:
  static std::string refusal(const std::filesystem::path& path) {
    const std::string mapped = message_of<InputError>([&] { MappedFile file(path); });
    EXPECT_EQ(message_of<InputError>([&] { RegularFile file(path); }), mapped);
    return mapped;
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "file";
};

TEST_F(RegularFiles, AreReadInPiecesToTheirEnd) {
  write_file(path_, "seven77");
  RegularFile file(path_);
  EXPECT_EQ(file.bytes(), 7u);
  std::vector<std::byte> piece(4);
  EXPECT_EQ(file.read(piece), 4u);
  EXPECT_EQ(file.read(piece), 3u);
  EXPECT_EQ(file.read(piece), 0u);
  EXPECT_EQ(read_text(path_, 5), "seven");
  EXPECT_EQ(read_text(path_, 50), "seven77");
}

TEST_F(RegularFiles, AreReadAtAnyOffset) {
  write_file(path_, "seven77");
  RegularFile file(path_);
  std::string piece(4, '.');
  const auto read_at = [&](std::uint64_t offset) {
    return file.read_at(offset, std::as_writable_bytes(std::span(piece)));
  };
  EXPECT_EQ(read_at(2), 4u);
  EXPECT_EQ(piece, "ven7");
  EXPECT_EQ(read_at(5), 2u);
  EXPECT_EQ(piece, "77n7");
  EXPECT_EQ(read_at(7), 0u);
  EXPECT_EQ(read_at(1000), 0u);
  std::vector<std::byte> all(7);
  EXPECT_EQ(file.read(all), 7u) << "read_at() does not move the position of read()";
}

/// /proc/self/mem, this process's memory, is a regular file whose first page cannot be read.
TEST_F(RegularFiles, ReportWhyTheyCannotBeRead) {
  RegularFile file("/proc/self/mem");
  std::vector<std::byte> piece(4);
  EXPECT_EQ(message_of<InputError>([&] { (void)file.read_at(5, piece); }),
            "/proc/self/mem: offset 5: cannot read: Input/output error");
}

TEST_F(RegularFiles, AreOpenedWithoutWaitingForAWriter) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(refusal(path_), HasSubstr("file: not a regular file but a FIFO"));
}

TEST_F(RegularFiles, DoNotIncludeFoldersDevicesOrMissingFiles) {
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("not a regular file but a folder"));
  EXPECT_EQ(refusal("/dev/zero"), "/dev/zero: not a regular file but a device");
  EXPECT_THAT(refusal(path_), HasSubstr("file: cannot open: No such file or directory"));
  std::filesystem::create_symlink("file", path_);
  EXPECT_THAT(refusal(path_), HasSubstr("file: cannot open: Too many levels of symbolic links"));
}

TEST_F(RegularFiles, ExistEvenIfTheyCannotBeRead) {
  EXPECT_FALSE(something_at(path_));
  EXPECT_FALSE(something_at(path_ / "below"));
  std::filesystem::create_symlink("nowhere", path_);
  EXPECT_TRUE(something_at(path_));
  EXPECT_TRUE(something_at(folder_.path()));
  EXPECT_THAT(message_of<InputError>([&] { (void)something_at(std::string(300, 'x')); }),
              HasSubstr("cannot open: File name too long"));
}

}  // namespace
}  // namespace pfc
