#include "coordinator/journal/takeover.h"

#include <gmock/gmock.h>

#include <fstream>

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

class TakeoverTest : public ::testing::Test {
 protected:
  proto::JournalIdentity command(const std::string& id, const std::string& json = "{}",
                                 const std::string& host = "localhost", int port = 0) {
    const Job job{.id = id, .file = "job.json", .json = json};
    return identity_of({{.name = host, .slots = 2}}, port, &job, "/jobs/job.json", 10min);
  }
  /// A coordinator writes a journal, and lives as long as what is returned.
  std::unique_ptr<Journal> coordinator(const proto::JournalIdentity& identity) {
    std::filesystem::create_directories(journal_file(folder.path(), "").parent_path());
    std::filesystem::permissions(journal_file(folder.path(), "").parent_path(),
                                 std::filesystem::perms::owner_all);
    auto journal = std::make_unique<Journal>(
        Journal::Options{.file = journal_file(folder.path(), identity.id()), .tell = [](auto&) {}},
        JournalContents{.identity = identity, .values = {{"run", "x"}}});
    return journal;
  }
  Takeover search(const proto::JournalIdentity& wanted, const std::string& choice = "auto") {
    return find_takeover(folder.path(), wanted, choice);
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

TEST_F(TakeoverTest, FindsNothingInAnEmptyFolder) { EXPECT_FALSE(search(command("b")).found); }

TEST_F(TakeoverTest, FindsWhatTheSameCommandHasLeft) {
  coordinator(command("aaaa"));
  const Takeover takeover = search(command("bbbb"));
  ASSERT_TRUE(takeover.found);
  EXPECT_EQ(takeover.found->contents.identity.id(), "aaaa");
  EXPECT_EQ(takeover.found->contents.values.at("run"), "x");
  EXPECT_THAT(takeover.notes, IsEmpty());
}

TEST_F(TakeoverTest, LeavesALivingCoordinatorAlone) {
  const auto living = coordinator(command("aaaa"));
  EXPECT_FALSE(search(command("bbbb")).found);
}

TEST_F(TakeoverTest, LetsOnlyOneOfTwoTakeOver) {
  coordinator(command("aaaa"));
  const Takeover first = search(command("bbbb"));
  ASSERT_TRUE(first.found);
  EXPECT_FALSE(search(command("cccc")).found);
}

TEST_F(TakeoverTest, SaysWhyAnotherJobIsNotGoneOnWith) {
  coordinator(command("aaaa"));
  EXPECT_THAT(
      search(command("bbbb", R"({"lr":1})")).notes,
      Contains(AllOf(HasSubstr("job aaaa"), HasSubstr("/jobs/job.json or --set was changed"))));
  EXPECT_THAT(search(command("bbbb", "{}", "other")).notes,
              Contains(HasSubstr("its hosts were localhost:2, and are other:2 now")));
  EXPECT_THAT(search(command("bbbb", "{}", "localhost", 7450)).notes,
              Contains(HasSubstr("its --port was 0, and is 7450 now")));
}

TEST_F(TakeoverTest, KeepsWhatOtherJobsHaveLeftApart) {
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

TEST_F(TakeoverTest, KeepsWhatItIsToldToForgetApart) {
  coordinator(command("aaaa"));
  const Takeover takeover = search(command("bbbb"), "never");
  EXPECT_THAT(ids(takeover.unused), ElementsAre("aaaa"));
  EXPECT_TRUE(takeover.unused.front().is_unwanted);
}

TEST_F(TakeoverTest, KeepsNothingOfJobsApartForAService) {
  coordinator(command("aaaa"));
  proto::JournalIdentity service = identity_of({{.name = "localhost"}}, 0, nullptr, {}, 10min);
  service.set_id("bbbb");
  EXPECT_THAT(search(service).unused, IsEmpty());
}

TEST_F(TakeoverTest, ForgetsAJobWhoseWorkersCannotLiveAnyMore) {
  coordinator(command("aaaa"));
  make_old("aaaa", 12min);
  EXPECT_FALSE(search(command("bbbb")).found);
  EXPECT_FALSE(std::filesystem::exists(journal_file(folder.path(), "aaaa")));
}

TEST_F(TakeoverTest, NeverForgetsAService) {
  proto::JournalIdentity service = identity_of({{.name = "localhost"}}, 0, nullptr, {}, 10min);
  service.set_id("aaaa");
  coordinator(service);
  make_old("aaaa", 240h);
  EXPECT_TRUE(search(service).found);
}

TEST_F(TakeoverTest, NeedsAChoiceAmongSeveral) {
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

TEST_F(TakeoverTest, BeginsAnewWhenItIsToldTo) {
  coordinator(command("aaaa"));
  EXPECT_FALSE(search(command("bbbb"), "never").found);
}

TEST_F(TakeoverTest, RefusesADamagedFileOfThisCommandAndSaysWhere) {
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

TEST_F(TakeoverTest, RefusesAFileWithoutAnIdentityThatCanBeRead) {
  coordinator(command("aaaa"));
  const auto path = journal_file(folder.path(), "aaaa");
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(40) << '!';
  EXPECT_THROW(search(command("bbbb")), InputError);
  EXPECT_THAT(search(command("bbbb"), "never").notes, Contains(HasSubstr(path.string())));
  std::ofstream(path, std::ios::trunc).flush();
  EXPECT_THROW(search(command("bbbb")), InputError);
}

TEST_F(TakeoverTest, TakesAFileThatItCannotWriteNotForThatOfALivingCoordinator) {
  coordinator(command("aaaa"));
  const auto path = journal_file(folder.path(), "aaaa");
  std::filesystem::rename(path, folder / "elsewhere");
  std::filesystem::create_symlink(folder / "elsewhere", path);
  EXPECT_ANY_THROW(search(command("bbbb")));
}

}  // namespace
}  // namespace pfc
