#include "common/files/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/other_user.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

TEST(EntriesOf, AreInTheOrderOfTheirNames) {
  const TemporaryFolder folder;
  for (const char* name : {"b", "c", "a"}) std::ofstream(folder / name) << "x";
  EXPECT_THAT(entries_of(folder.path()), ElementsAre(folder / "a", folder / "b", folder / "c"));
}

TEST(EntriesOf, AreNoneWhereThereIsNoFolder) {
  const TemporaryFolder folder;
  EXPECT_TRUE(entries_of(folder / "absent" / "deeper").empty());
}

TEST(EntriesOf, ThrowsForAFolderThatMayNotBeListed) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "full");
  std::ofstream(folder / "full/file") << "x";
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  std::filesystem::permissions(folder / "full", std::filesystem::perms::owner_write);
  const testing::OtherUser nobody;
  EXPECT_THAT(message_of<StorageError>([&] { (void)entries_of(folder / "full"); }),
              AllOf(HasSubstr((folder / "full").string()), HasSubstr("Permission denied")));
}

TEST(EntriesOf, ThrowsForWhatIsNoFolder) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THAT(message_of<StorageError>([&] { (void)entries_of(folder / "file"); }),
              HasSubstr("Not a directory"));
  std::filesystem::create_symlink("loop", folder / "loop");
  EXPECT_THAT(message_of<StorageError>([&] { (void)entries_of(folder / "loop"); }),
              HasSubstr("Too many levels of symbolic links"));
}

}  // namespace
}  // namespace pfc
