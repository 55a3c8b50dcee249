#include "common/coordinator_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::SizeIs;

class CoordinatorFileInAFolder : public ::testing::Test {
 protected:
  std::unique_ptr<PublishedCoordinator> runs(const std::string& job_id, pid_t pid = 42) {
    return std::make_unique<PublishedCoordinator>(state,
                                                  CoordinatorFile{.job_id = job_id,
                                                                  .address = "127.0.0.1:7450",
                                                                  .http_address = "127.0.0.1:7451",
                                                                  .pid = pid,
                                                                  .job = "job.json"});
  }

  /// Simulates a killed coordinator, whose file remains.
  void is_killed(const std::string& job_id) {
    const pid_t child = fork();
    if (child == 0) {
      const auto file = runs(job_id);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    ASSERT_TRUE(fs::exists(state / (job_id + ".json")));
  }

  TemporaryFolder folder;
  fs::path state = folder / "state";
};

TEST_F(CoordinatorFileInAFolder, IsRecreatedWithItsFolderAfterRemoval) {
  const auto one = runs("aa11");
  one->renew();
  fs::remove_all(state);
  one->renew();
  EXPECT_EQ(find_coordinator(state, "").pid, 42);
  EXPECT_EQ(fs::status(state).permissions(), fs::perms::owner_all);
}

TEST_F(CoordinatorFileInAFolder, IsReadUnchangedAndOnlyByThisUser) {
  const auto one = runs("aa11");
  const CoordinatorFile file = find_coordinator(state, "");
  EXPECT_EQ(file.job_id, "aa11");
  EXPECT_EQ(file.address, "127.0.0.1:7450");
  EXPECT_EQ(file.pid, 42);
  EXPECT_EQ(fs::status(state).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(state / "aa11.json").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(CoordinatorFileInAFolder, NamesTheFolderAndTheFlagIfThereIsNoCoordinator) {
  EXPECT_THAT(message_of<InputError>([&] { find_coordinator(state, ""); }),
              AllOf(HasSubstr(state.string()), HasSubstr("--coordinator")));
}

TEST_F(CoordinatorFileInAFolder, IsNamedInTheErrorIfDamaged) {
  const auto one = runs("aa11");
  std::ofstream(state / "aa11.json") << "{\"address\": 7}";
  EXPECT_THAT(message_of<InputError>([&] { find_coordinator(state, ""); }),
              AllOf(HasSubstr("aa11.json"), HasSubstr("not a coordinator's file")));
  std::ofstream(state / "aa11.json") << std::string(1000, '[');
  EXPECT_THAT(message_of<InputError>([&] { find_coordinator(state, ""); }),
              AllOf(HasSubstr("aa11.json: not a coordinator's file"),
                    HasSubstr("nested more than 2 deep"), HasSubstr("--coordinator HOST:PORT")));
}

TEST_F(CoordinatorFileInAFolder, IsNeitherReplacedNorRemovedByAnotherCoordinator) {
  const auto one = runs("aa11", 41);
  auto two = runs("bb22", 42);
  EXPECT_EQ(find_coordinator(state, "aa11").pid, 41);
  EXPECT_EQ(find_coordinator(state, "b").pid, 42);
  two.reset();
  EXPECT_EQ(find_coordinator(state, "").pid, 41);
}

TEST_F(CoordinatorFileInAFolder, ListsAllCoordinatorsIfSeveralMatch) {
  const auto one = runs("aa11", 41);
  const auto two = runs("aa22", 42);
  EXPECT_EQ(
      message_of<InputError>([&] { find_coordinator(state, ""); }),
      "2 coordinators of this user run on this machine; choose one with --service ID: job aa11 "
      "(job.json) at 127.0.0.1:7450, pid 41; job aa22 (job.json) at 127.0.0.1:7450, pid 42");
  EXPECT_THAT(message_of<InputError>([&] { find_coordinator(state, "cc"); }),
              AllOf(HasSubstr("--service cc: no coordinator"), HasSubstr("job aa22")));
}

TEST_F(CoordinatorFileInAFolder, ListsWhetherACoordinatorIsAService) {
  const auto one = runs("aa11", 41);
  const PublishedCoordinator service(state, {.job_id = "bb22", .address = "a:1", .pid = 42});
  EXPECT_THAT(message_of<InputError>([&] { find_coordinator(state, ""); }),
              HasSubstr("pid 41; service bb22 at a:1, pid 42"));
}

TEST_F(CoordinatorFileInAFolder, IsIgnoredIfItsCoordinatorWasKilled) {
  is_killed("aa11");
  EXPECT_THAT(living_coordinators(state), IsEmpty());
  const auto next = runs("bb22");
  EXPECT_THAT(living_coordinators(state), SizeIs(1));
  EXPECT_FALSE(fs::exists(state / "aa11.json")) << "the next coordinator removes it";
}

TEST_F(CoordinatorFileInAFolder, KeepsFilesOfOtherPrograms) {
  is_killed("aa11");
  fs::copy_file(state / "aa11.json", state / "copy.json");
  std::ofstream(state / "job.json") << R"({"network": "r50"})";
  std::ofstream(state / "notes.json") << "no JSON";
  const auto next = runs("bb22");
  for (const char* name : {"copy.json", "job.json", "notes.json"}) {
    EXPECT_TRUE(fs::exists(state / name)) << name;
  }
  EXPECT_FALSE(fs::exists(state / "aa11.json"));
}

TEST_F(CoordinatorFileInAFolder, AcceptsAJobFileWhosePathIsNotUtf8) {
  const PublishedCoordinator published(state, {.job_id = "1a", .job = "caf\xe9.json"});
  EXPECT_EQ(find_coordinator(state, "").job, "caf\xef\xbf\xbd.json");
}

TEST_F(CoordinatorFileInAFolder, IsRemovedWithItsCoordinator) {
  runs("aa11").reset();
  EXPECT_TRUE(fs::is_empty(state));
}

TEST_F(CoordinatorFileInAFolder, NamesAFolderThatCannotBeCreated) {
  EXPECT_THAT(message_of<StorageError>([] { PublishedCoordinator("/proc/pfc", {}); }),
              AllOf(HasSubstr("/proc/pfc"), HasSubstr("--state-dir")));
}

}  // namespace
}  // namespace pfc
