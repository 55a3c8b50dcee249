#include "coordinator/journal/journal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <optional>

#include "common/clock.h"
#include "common/files/regular_file.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

class JournalTest : public ::testing::Test {
 protected:
  Journal::Options options() {
    return {.file = file,
            .tell =
                [this](const std::string& line) {
                  const std::lock_guard lock(mutex);
                  told.push_back(line);
                },
            .smallest_rewrite = 4'096,
            .retry = 5ms};
  }
  JournalContents contents() {
    proto::JournalIdentity identity;
    identity.set_id("0123456789abcdef");
    return {.identity = identity, .values = {}};
  }
  JournalContents on_disk() { return parse_journal(read_text(file, 1 << 24), "x.journal"); }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex);
    return told;
  }

  TemporaryFolder folder;
  std::filesystem::path file = folder / "x.journal";
  std::mutex mutex;
  std::vector<std::string> told;  // guarded by mutex
};

TEST_F(JournalTest, HasAllValuesOnDiskWhenSettleReturns) {
  Journal journal(options(), contents());
  journal.put("a", "1");
  journal.put("b", "2");
  journal.erase("a");
  EXPECT_TRUE(journal.settle(60s));
  EXPECT_THAT(on_disk().values, ElementsAre(Pair("b", "2")));
}

TEST_F(JournalTest, WritesNothingForAnUnchangedValue) {
  Journal journal(options(), contents());
  journal.put("a", "1");
  ASSERT_TRUE(journal.settle(60s));
  const auto before = journal.file_bytes();
  journal.put("a", "1");
  ASSERT_TRUE(journal.settle(60s));
  EXPECT_EQ(journal.file_bytes(), before);
}

TEST_F(JournalTest, WritesAChangeOfSeveralValuesAsOneRecord) {
  Journal journal(options(), contents());
  {
    const Journal::Change change(journal);
    for (int i = 0; i < 100; ++i) journal.put("key" + std::to_string(i), "x");
  }
  ASSERT_TRUE(journal.settle(60s));
  EXPECT_EQ(on_disk().records, 2);  // the first one has the initial contents
}

TEST_F(JournalTest, ErasesAllKeysOfAPrefixExceptTheGivenKeys) {
  Journal journal(options(), contents());
  for (const char* key : {"worker/0", "worker/1", "worker/2", "x"}) journal.put(key, "1");
  journal.keep_only("worker/", {"worker/1"});
  ASSERT_TRUE(journal.settle(60s));
  EXPECT_THAT(on_disk().values, ElementsAre(Pair("worker/1", "1"), Pair("x", "1")));
}

TEST_F(JournalTest, IsRewrittenWhenItHasGrown) {
  Journal journal(options(), contents());
  for (int i = 0; i < 1'000; ++i) {
    journal.put("a", std::string(1'000, static_cast<char>('a' + i % 26)));
    ASSERT_TRUE(journal.settle(60s));
  }
  EXPECT_LT(journal.file_bytes(), 16'384);
  EXPECT_THAT(on_disk().values, SizeIs(1));
}

TEST_F(JournalTest, IsDeletedOnlyByRemove) {
  {
    Journal journal(options(), contents());
    journal.put("a", "1");
  }
  EXPECT_THAT(on_disk().values, ElementsAre(Pair("a", "1")));
  {
    Journal journal(options(), on_disk());
    journal.remove();
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(JournalTest, IsRewrittenAfterItsFileWasRemoved) {
  Journal journal(options(), contents());
  journal.put("a", "1");
  ASSERT_TRUE(journal.settle(60s));
  std::filesystem::remove(file);
  journal.put("b", "2");
  ASSERT_TRUE(journal.settle(60s));
  EXPECT_THAT(on_disk().values, ElementsAre(Pair("a", "1"), Pair("b", "2")));
}

TEST_F(JournalTest, IsRewrittenAfterItsFolderWasRemoved) {
  const auto removed = folder / "state";
  file = removed / "journals" / "x.journal";
  Journal journal(options(), contents());
  journal.put("a", "1");
  ASSERT_TRUE(journal.settle(60s));
  std::filesystem::rename(removed, folder / "elsewhere");
  journal.put("b", "2");
  ASSERT_TRUE(journal.settle(60s));
  EXPECT_THAT(on_disk().values, ElementsAre(Pair("a", "1"), Pair("b", "2")));
  EXPECT_EQ(std::filesystem::status(removed).permissions(), std::filesystem::perms::owner_all);
}

/// Runs in a separate process with a limit on the size of files.
template <typename Body>
int exit_code_with_limit(std::size_t bytes, Body body) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(JournalTest, WarnsOnceWhileTheDiskIsFullAndWritesEverythingLater) {
  const int code = exit_code_with_limit(2'000, [&] {
    Journal journal(options(), contents());
    journal.put("a", std::string(1'000, 'x'));
    if (!journal.settle(60s)) return 1;
    journal.put("b", std::string(5'000, 'y'));
    if (journal.settle(60s)) return 2;
    while (journal.failures() < 5) usleep(1'000);
    journal.put("c", "1");
    if (journal.settle(60s) || lines().size() != 1) return 3;
    const rlimit room{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &room);
    while (lines().size() < 2) usleep(1'000);
    return lines()[1] == "the journal can be written again" ? 0 : 4;
  });
  EXPECT_EQ(code, 0);
  EXPECT_THAT(on_disk().values, SizeIs(3));
  EXPECT_THAT(std::filesystem::exists(file.string() + ".tmp"), false);
}

TEST_F(JournalTest, KeepsWhatWasWrittenBeforeTheDiskWasFull) {
  const int code = exit_code_with_limit(2'000, [&] {
    Journal journal(options(), contents());
    journal.put("a", "1");
    if (!journal.settle(60s)) return 1;
    journal.put("b", std::string(5'000, 'y'));
    while (journal.failures() < 2) usleep(1'000);
    _exit(0);  // as if killed
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_THAT(on_disk().values, ElementsAre(Pair("a", "1")));
}

/// Replaces a file by a full pipe, so that writers block until it is read.
class HungDisk {
 public:
  explicit HungDisk(const std::filesystem::path& file) {
    EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK), 0);
    const std::string bytes(4'096, 'x');
    while (::write(ends_[1], bytes.data(), bytes.size()) > 0) {
    }
    ::fcntl(ends_[1], F_SETFL, 0);
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(each, gone) != file) continue;
      ::dup2(ends_[1], std::stoi(each.path().filename()));
    }
  }
  ~HungDisk() {
    for (const int end : ends_) ::close(end);
  }
  void answer() const {
    std::string bytes(1 << 20, ' ');
    EXPECT_GT(::read(ends_[0], bytes.data(), bytes.size()), 0);
  }

 private:
  std::array<int, 2> ends_{};
};

TEST_F(JournalTest, DoesNotBlockASecondTimeWhileTheDiskHangs) {
  Journal journal(options(), contents());
  journal.put("a", "1");
  ASSERT_TRUE(journal.settle(60s));
  const HungDisk disk(file);
  journal.put("a", "2");
  EXPECT_FALSE(journal.settle(100ms));
  const TimePoint start = Clock::now();
  journal.put("a", "3");
  EXPECT_FALSE(journal.settle(20s));
  EXPECT_LT(Clock::now() - start, 10s);
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("has not answered for 100 ms")));
  disk.answer();
  while (lines().size() < 2) usleep(1'000);
  EXPECT_EQ(lines()[1], "the disk of the journal answers again");
  journal.put("a", "4");
  EXPECT_TRUE(journal.settle(60s));
}

TEST_F(JournalTest, DoesNotBlockAtItsEndWhileTheDiskHangs) {
  {
    std::optional<HungDisk> disk;  // exists as long as the journal writes to it
    Journal journal(options(), contents());
    journal.put("a", "1");
    ASSERT_TRUE(journal.settle(60s));
    disk.emplace(file);
    journal.put("a", "2");
    EXPECT_FALSE(journal.settle(100ms));
    const TimePoint start = Clock::now();
    journal.remove();
    EXPECT_LT(Clock::now() - start, 10s);
    disk->answer();
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace pfc
