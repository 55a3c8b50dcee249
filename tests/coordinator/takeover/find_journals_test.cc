#include "coordinator/takeover/find_journals.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "common/error.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FindJournalsTest : public ::testing::Test {
 protected:
  proto::JournalIdentity command(const std::string& id, const std::string& json = "{}",
                                 const std::string& host = "localhost", int port = 0) {
    const Job job{.id = id, .file = "job.json", .json = json};
    return identity_of({{.name = host, .slots = 2}}, port, &job, "/jobs/job.json", 10min);
  }
  /// Writes a coordinator's journal. The coordinator lives as long as the returned object.
  std::unique_ptr<Journal> coordinator(const proto::JournalIdentity& identity) {
    std::filesystem::create_directories(journal_file(folder.path(), "").parent_path());
    std::filesystem::permissions(journal_file(folder.path(), "").parent_path(),
                                 std::filesystem::perms::owner_all);
    return open(identity, {});
  }
  std::unique_ptr<Journal> open(const proto::JournalIdentity& identity, Fd lock) {
    return std::make_unique<Journal>(
        Journal::Options{
            .file = journal_file(folder.path(), identity.id()), .tell = [](auto&) {}, .touch = 5ms},
        JournalContents{.identity = identity, .values = {{"run", "x"}}}, std::move(lock));
  }
  FoundJournals search(const proto::JournalIdentity& wanted, const std::string& choice = "auto") {
    return find_journals(folder.path(), wanted, choice);
  }
  static std::vector<std::string> ids(const std::vector<FoundJournal>& journals) {
    std::vector<std::string> found;
    for (const FoundJournal& each : journals) found.push_back(each.contents.identity.id());
    return found;
  }
  void make_old(const std::string& id, std::chrono::seconds age) {
    std::filesystem::last_write_time(journal_file(folder.path(), id),
                                     std::filesystem::file_time_type::clock::now() - age);
  }

  TemporaryFolder folder;
};

TEST_F(FindJournalsTest, FindsNothingInAnEmptyFolder) { EXPECT_FALSE(search(command("b")).found); }

TEST_F(FindJournalsTest, FindsTheJournalOfTheSameCommand) {
  coordinator(command("aaaa"));
  const FoundJournals journals = search(command("bbbb"));
  ASSERT_TRUE(journals.found);
  EXPECT_EQ(journals.found->contents.identity.id(), "aaaa");
  EXPECT_EQ(journals.found->contents.values.at("run"), "x");
  EXPECT_THAT(journals.notes, IsEmpty());
}

TEST_F(FindJournalsTest, IgnoresTheJournalOfARunningCoordinator) {
  const auto living = coordinator(command("aaaa"));
  // If the new file counted as untouched, this would wait until the test times out.
  EXPECT_FALSE(find_journals(folder.path(), command("bbbb"), "auto", {.untouched = 1h}).found);
}

/// A lock of a failed host that the file server has not released.
class StaleLock {
 public:
  explicit StaleLock(const std::filesystem::path& file)
      : fd_(::open(file.c_str(), O_WRONLY | O_CLOEXEC)) {
    EXPECT_EQ(::flock(fd_, LOCK_EX | LOCK_NB), 0);
  }
  void release() { fd_.reset(); }

 private:
  Fd fd_;
};

TEST_F(FindJournalsTest, WaitsForTheLockOfADeadCoordinatorAndSaysSo) {
  coordinator(command("aaaa"));
  StaleLock lock(journal_file(folder.path(), "aaaa"));
  std::vector<std::string> told;
  const auto server_gives_up = [&](const std::string& line) {
    told.push_back(line);
    lock.release();
  };
  const FoundJournals journals =
      find_journals(folder.path(), command("bbbb"), "auto",
                    {.untouched = 20ms, .limit = 10min, .tell = server_gives_up});
  ASSERT_TRUE(journals.found);
  EXPECT_EQ(journals.found->contents.identity.id(), "aaaa");
  EXPECT_THAT(told, ElementsAre(AllOf(HasSubstr("aaaa.journal: locked, but unchanged"),
                                      HasSubstr("to continue job aaaa"))));
}

TEST_F(FindJournalsTest, FailsIfTheLockOfADeadCoordinatorIsNotReleased) {
  coordinator(command("aaaa"));
  const StaleLock lock(journal_file(folder.path(), "aaaa"));
  const LockWait brief{.untouched = 0ms, .limit = 0ms};
  EXPECT_THROW(find_journals(folder.path(), command("bbbb"), "auto", brief), StorageError);
  EXPECT_THROW(find_journals(folder.path(), command("bbbb"), "aa", brief), StorageError);
  EXPECT_FALSE(find_journals(folder.path(), command("bbbb"), "never", brief).found);
  make_old("aaaa", 12min);  // its workers have ended
  EXPECT_FALSE(find_journals(folder.path(), command("bbbb"), "auto", brief).found);
}

TEST_F(FindJournalsTest, LetsOnlyOneOfTwoCoordinatorsTakeOver) {
  coordinator(command("aaaa"));
  FoundJournals first = search(command("bbbb"));
  ASSERT_TRUE(first.found);
  std::unique_ptr<Journal> journal;
  const auto first_goes_on = [&](const std::string&) {
    journal = open(command("aaaa"), std::move(first.found->lock));
  };
  EXPECT_FALSE(find_journals(folder.path(), command("cccc"), "auto",
                             {.untouched = 0ms, .limit = 1h, .tell = first_goes_on})
                   .found);
}

TEST_F(FindJournalsTest, SaysWhyAnotherJobIsNotResumed) {
  coordinator(command("aaaa"));
  EXPECT_THAT(
      search(command("bbbb", R"({"lr":1})")).notes,
      Contains(AllOf(HasSubstr("job aaaa"), HasSubstr("/jobs/job.json or --set was changed"))));
  EXPECT_THAT(search(command("bbbb", "{}", "other")).notes,
              Contains(HasSubstr("its hosts were localhost:2, and are other:2 now")));
  EXPECT_THAT(search(command("bbbb", "{}", "localhost", 7450)).notes,
              Contains(HasSubstr("its --port was 0, and is 7450 now")));
}

TEST_F(FindJournalsTest, ReturnsAJournalInAnotherStateFormatAsUnused) {
  proto::JournalIdentity other_build = command("aaaa");
  other_build.clear_state_format();
  coordinator(other_build);
  const FoundJournals journals = search(command("bbbb"));
  EXPECT_FALSE(journals.found);
  EXPECT_THAT(ids(journals.unused), ElementsAre("aaaa"));
  EXPECT_THAT(journals.notes, Contains(HasSubstr("wrote its state, in another format")));
}

TEST_F(FindJournalsTest, ReturnsJournalsOfOtherJobsAsUnused) {
  coordinator(command("aaaa", R"({"lr":1})"));
  const Job elsewhere{.id = "bbbb", .file = "other.json", .json = "{}"};
  coordinator(
      identity_of({{.name = "localhost", .slots = 2}}, 0, &elsewhere, "/jobs/other.json", 10min));
  const auto living = coordinator(command("cccc", R"({"lr":2})"));
  proto::JournalIdentity service = identity_of({{.name = "localhost"}}, 0, nullptr, {}, 10min);
  service.set_id("dddd");
  coordinator(service);
  EXPECT_THAT(ids(search(command("eeee")).unused), ElementsAre("aaaa", "bbbb"));
}

TEST_F(FindJournalsTest, ReturnsAJournalAsUnusedWithTakeOverNever) {
  coordinator(command("aaaa"));
  const FoundJournals journals = search(command("bbbb"), "never");
  EXPECT_THAT(ids(journals.unused), ElementsAre("aaaa"));
  EXPECT_TRUE(journals.unused.front().is_unwanted);
}

TEST_F(FindJournalsTest, ServiceIgnoresJournalsOfSingleJobs) {
  coordinator(command("aaaa"));
  proto::JournalIdentity service = identity_of({{.name = "localhost"}}, 0, nullptr, {}, 10min);
  service.set_id("bbbb");
  EXPECT_THAT(search(service).unused, IsEmpty());
}

TEST_F(FindJournalsTest, ForgetsAJobWhoseWorkersMustHaveEnded) {
  coordinator(command("aaaa"));
  make_old("aaaa", 12min);
  EXPECT_FALSE(search(command("bbbb")).found);
  EXPECT_FALSE(std::filesystem::exists(journal_file(folder.path(), "aaaa")));
}

TEST_F(FindJournalsTest, NeverForgetsAService) {
  proto::JournalIdentity service = identity_of({{.name = "localhost"}}, 0, nullptr, {}, 10min);
  service.set_id("aaaa");
  coordinator(service);
  make_old("aaaa", 240h);
  EXPECT_TRUE(search(service).found);
}

TEST_F(FindJournalsTest, RequiresTakeOverToChooseAmongSeveralJournals) {
  coordinator(command("aaaa"));
  coordinator(command("bbbb"));
  try {
    search(command("cccc"));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("--take-over ID"), HasSubstr("aaaa")));
  }
  EXPECT_EQ(search(command("cccc"), "bb").found->contents.identity.id(), "bbbb");
  EXPECT_THROW(search(command("cccc"), "dd"), InputError);
}

TEST_F(FindJournalsTest, StartsANewJobWithTakeOverNever) {
  coordinator(command("aaaa"));
  EXPECT_FALSE(search(command("bbbb"), "never").found);
}

TEST_F(FindJournalsTest, RefusesADamagedFileOfThisCommandAndSaysWhere) {
  {
    const auto journal = coordinator(command("aaaa"));
    journal->put("run", "y");
  }
  const auto path = journal_file(folder.path(), "aaaa");
  const auto begin = static_cast<std::streamoff>(encode_header(command("aaaa")).size());
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(begin + 13) << '!';
  try {
    search(command("bbbb"));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("damaged at byte " + std::to_string(begin)));
  }
}

TEST_F(FindJournalsTest, RejectsAFileWithAnUnreadableIdentity) {
  coordinator(command("aaaa"));
  const auto path = journal_file(folder.path(), "aaaa");
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(40) << '!';
  EXPECT_THROW(search(command("bbbb")), InputError);
  EXPECT_THAT(search(command("bbbb"), "never").notes, Contains(HasSubstr(path.string())));
  std::ofstream(path, std::ios::trunc).flush();
  EXPECT_THROW(search(command("bbbb")), InputError);
}

TEST_F(FindJournalsTest, ThrowsIfAJournalIsALink) {
  coordinator(command("aaaa"));
  const auto path = journal_file(folder.path(), "aaaa");
  std::filesystem::rename(path, folder / "elsewhere");
  std::filesystem::create_symlink(folder / "elsewhere", path);
  EXPECT_ANY_THROW(search(command("bbbb")));
}

}  // namespace
}  // namespace pfc
