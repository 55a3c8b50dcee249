#include "security/secret_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

mode_t mode_of(const std::filesystem::path& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0);
  return info.st_mode & 0777U;
}

TEST(SecretFile, IsReadableOnlyByItsUser) {
  const TemporaryFolder folder;
  make_private_folder(folder / "state" / "security");
  EXPECT_EQ(mode_of(folder / "state" / "security"), 0700U);
  const auto path = folder / "state" / "security" / "key";
  write_secret(path, "secret");
  EXPECT_EQ(mode_of(path), 0600U);
  EXPECT_EQ(read_secret(path, 100), "secret");
}

TEST(SecretFile, IsRefusedWhenOthersMayReadIt) {
  const TemporaryFolder folder;
  const auto path = folder / "key";
  write_secret(path, "secret");
  for (const mode_t mode : {0640U, 0604U, 0620U}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_THAT(message_of<InputError>([&] { read_secret(path, 100); }),
                AllOf(HasSubstr(path.string()), HasSubstr("chmod 600")));
  }
}

TEST(SecretFile, IsNotWrittenToAFolderThatOthersMayEnter) {
  const TemporaryFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0750), 0);
  EXPECT_THAT(message_of<StorageError>([&] { make_private_folder(folder.path()); }),
              AllOf(HasSubstr("0750"), HasSubstr("chmod 700")));
}

TEST(SecretFile, IsRejectedAboveItsSizeLimit) {
  const TemporaryFolder folder;
  write_secret(folder / "key", std::string(101, 'x'));
  EXPECT_THAT(message_of<InputError>([&] { read_secret(folder / "key", 100); }),
              HasSubstr("expected at most 100"));
}

}  // namespace
}  // namespace pfc
