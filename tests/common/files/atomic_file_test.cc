#include "common/files/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Sha256, AgreesWithThePublishedExamples) {  // FIPS 180-4, "abc" and the empty message
  EXPECT_EQ(sha256_hex(std::as_bytes(std::span("abc", 3))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(AtomicFile, AppearsOnlyWhenCompleteWithItsSizeAndChecksum) {
  TemporaryFolder folder;
  const auto path = folder / "file";
  AtomicFile file(path);
  file.write(std::as_bytes(std::span("ab", 2)));
  file.write(std::as_bytes(std::span("c", 1)));
  EXPECT_FALSE(std::filesystem::exists(path));
  const WrittenFile written = file.commit();
  EXPECT_EQ(content(path), "abc");
  EXPECT_EQ(written.bytes, 3u);
  EXPECT_EQ(written.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(AtomicFile, LeavesTheOldFileWhenNotCommitted) {
  TemporaryFolder folder;
  const auto path = folder / "file";
  write_file_atomically(path, "old");
  {
    AtomicFile file(path);
    file.write(std::as_bytes(std::span("new", 3)));
  }
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(AtomicFile, FullDiskNamesFileAndReasonAndKeepsTheOldFile) {
  TemporaryFolder folder;
  const auto path = folder / "file";
  write_file_atomically(path, "old");
  const std::string message = message_of<StorageError>([&] {
    const FileSizeLimit limit(4096);
    AtomicFile file(path);
    file.write(std::vector<std::byte>(10'000));
    file.commit();
  });
  EXPECT_THAT(message, HasSubstr(path.string()));
  EXPECT_THAT(message, HasSubstr("after 4096 bytes: File too large"));
  EXPECT_EQ(content(path), "old");
}

TEST(AtomicFile, NamesAMissingFolder) {
  TemporaryFolder folder;
  EXPECT_THAT(message_of<StorageError>([&] { write_file_atomically(folder / "no/file", "x"); }),
              HasSubstr("no/file: cannot create: No such file or directory"));
}

TEST(AtomicFile, RejectsFifosWithoutWaiting) {
  const TemporaryFolder folder;
  const auto refusal = [&](const char* name) {
    return message_of<StorageError>([&] { AtomicFile file(folder / name); });
  };
  ASSERT_EQ(::mkfifo((folder / "one").c_str(), 0600), 0);
  EXPECT_THAT(refusal("one"), HasSubstr("one: not a regular file but a FIFO; move it away"));
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "one"));
  ASSERT_EQ(::mkfifo((folder / "two.tmp").c_str(), 0600), 0);
  EXPECT_THAT(refusal("two"), HasSubstr("two.tmp: not a regular file but a FIFO; move it away"));
}

TEST(AtomicFile, DoesNotOverwriteTheTargetOfALink) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "precious", "text");
  std::filesystem::create_symlink("precious", folder / "new.tmp");
  EXPECT_THAT(message_of<StorageError>([&] { write_file_atomically(folder / "new", "other"); }),
              HasSubstr("new.tmp: not a regular file but a link; move it away"));
  EXPECT_EQ(read_text(folder / "precious", 10), "text");
}

}  // namespace
}  // namespace pfc
