#include "common/coordinator_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CoordinatorFileInAFolder : public ::testing::Test {
 protected:
  void writes(pid_t pid) {
    write_coordinator_file(folder / "state", {.address = "127.0.0.1:7450",
                                              .http_address = "127.0.0.1:7451",
                                              .pid = pid,
                                              .job = "job.json"});
  }
  TemporaryFolder folder;
};

TEST_F(CoordinatorFileInAFolder, IsReadAsItWasWrittenByThisUserAlone) {
  writes(42);
  const CoordinatorFile file = read_coordinator_file(folder / "state");
  EXPECT_EQ(file.address, "127.0.0.1:7450");
  EXPECT_EQ(file.pid, 42);
  const auto permissions = std::filesystem::status(folder / "state").permissions();
  EXPECT_EQ(permissions, std::filesystem::perms::owner_all);
}

TEST_F(CoordinatorFileInAFolder, OfNoCoordinatorNamesTheFileAndTheFlag) {
  EXPECT_THAT(testing::message_of<InputError>([&] { read_coordinator_file(folder / "state"); }),
              AllOf(HasSubstr((folder / "state" / "coordinator.json").string()),
                    HasSubstr("--coordinator")));
}

TEST_F(CoordinatorFileInAFolder, ThatIsDamagedIsNamed) {
  writes(42);
  std::ofstream(folder / "state" / "coordinator.json") << "{\"address\": 7}";
  EXPECT_THAT(testing::message_of<InputError>([&] { read_coordinator_file(folder / "state"); }),
              HasSubstr("not what a coordinator writes"));
}

TEST_F(CoordinatorFileInAFolder, OfAnotherCoordinatorIsNotRemoved) {
  writes(42);
  remove_coordinator_file(folder / "state", 41);
  EXPECT_EQ(read_coordinator_file(folder / "state").pid, 42);
  remove_coordinator_file(folder / "state", 42);
  EXPECT_FALSE(std::filesystem::exists(folder / "state" / "coordinator.json"));
}

TEST_F(CoordinatorFileInAFolder, AFolderThatCannotBeMadeIsNamed) {
  EXPECT_THAT(testing::message_of<StorageError>([] { write_coordinator_file("/proc/pfc", {}); }),
              AllOf(HasSubstr("/proc/pfc"), HasSubstr("--state-dir")));
}

}  // namespace
}  // namespace pfc
