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

TEST(EntriesOf, ReturnsEntriesSortedByName) {
  const TemporaryFolder folder;
  for (const char* name : {"b", "c", "a"}) std::ofstream(folder / name) << "x";
  EXPECT_THAT(entries_of(folder.path()), ElementsAre(folder / "a", folder / "b", folder / "c"));
}

TEST(EntriesOf, ReturnsNothingForAMissingFolder) {
  const TemporaryFolder folder;
  EXPECT_TRUE(entries_of(folder / "absent" / "deeper").empty());
}

TEST(EntriesOf, ThrowsForAFolderThatCannotBeListed) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "full");
  std::ofstream(folder / "full/file") << "x";
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  std::filesystem::permissions(folder / "full", std::filesystem::perms::owner_write);
  const testing::OtherUser nobody;
  EXPECT_THAT(message_of<StorageError>([&] { (void)entries_of(folder / "full"); }),
              AllOf(HasSubstr((folder / "full").string()), HasSubstr("Permission denied")));
}

TEST(EntriesOf, ThrowsForAFileAndForALoopOfLinks) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THAT(message_of<StorageError>([&] { (void)entries_of(folder / "file"); }),
              HasSubstr("Not a directory"));
  std::filesystem::create_symlink("loop", folder / "loop");
  EXPECT_THAT(message_of<StorageError>([&] { (void)entries_of(folder / "loop"); }),
              HasSubstr("Too many levels of symbolic links"));
}

bool is_own_name(const std::string& name) { return name == ".marker" || name.starts_with("own"); }

class RemoveOwnFolder : public ::testing::Test {
 protected:
  RemoveOwnFolder() {
    std::filesystem::create_directory(own());
    for (const char* name : {".marker", "own1", "own2"}) std::ofstream(own() / name) << "x";
    std::ofstream(folder / "theirs") << "x";
  }
  [[nodiscard]] std::filesystem::path own() const { return folder / "own"; }
  /// Returns the error of remove_own_folder(). Expects the content of the folder to be unchanged.
  std::string refusal() {
    const std::size_t before = entries_of(own()).size();
    const std::string text =
        message_of<StorageError>([&] { remove_own_folder(own(), is_own_name); });
    EXPECT_EQ(entries_of(own()).size(), before);
    return text;
  }
  TemporaryFolder folder;
};

TEST_F(RemoveOwnFolder, RemovesTheFolderAndItsFiles) {
  remove_own_folder(own(), is_own_name);
  EXPECT_THAT(entries_of(folder.path()), ElementsAre(folder / "theirs"));
  remove_own_folder(own(), is_own_name);
}

TEST_F(RemoveOwnFolder, RejectsAForeignFile) {
  std::ofstream(own() / "notes.txt") << "x";
  EXPECT_THAT(refusal(), HasSubstr("own: not removed: contains notes.txt, which pfc did not make"));
}

TEST_F(RemoveOwnFolder, RejectsASubFolder) {
  std::filesystem::create_directory(own() / "own3");
  EXPECT_THAT(refusal(), HasSubstr("contains own3"));
}

TEST_F(RemoveOwnFolder, RejectsALinkInside) {
  std::filesystem::create_symlink(folder / "theirs", own() / "own3");
  EXPECT_THAT(refusal(), HasSubstr("contains own3"));
}

TEST_F(RemoveOwnFolder, RemovesFilesThatFileManagersMake) {
  std::ofstream(own() / ".DS_Store") << "x";
  remove_own_folder(own(), is_own_name, ".marker");
  EXPECT_FALSE(std::filesystem::exists(own()));
}

TEST_F(RemoveOwnFolder, KeepsFilesThatAreAddedDuringTheRemoval) {
  // A file is added after the folder was listed, while the first name is examined.
  const auto meanwhile = [&](const std::string& name) {
    std::ofstream(own() / "theirs") << "x";
    return is_own_name(name);
  };
  EXPECT_THAT(message_of<StorageError>([&] { remove_own_folder(own(), meanwhile, ".marker"); }),
              HasSubstr("own: not removed: "));
  EXPECT_TRUE(std::filesystem::exists(own() / "theirs"));
}

TEST_F(RemoveOwnFolder, RejectsALinkToAFolder) {
  std::filesystem::create_directory_symlink(own(), folder / "link");
  EXPECT_THAT(message_of<StorageError>([&] { remove_own_folder(folder / "link", is_own_name); }),
              HasSubstr("link: not removed: expected a folder, found a link or a file"));
  EXPECT_EQ(entries_of(own()).size(), 3U);
}

}  // namespace
}  // namespace pfc
