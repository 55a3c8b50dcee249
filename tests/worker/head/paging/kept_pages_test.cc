#include "worker/head/paging/kept_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "worker/head/paging/paged_memory.h"

namespace {
int calls_left = 0;  // of functions that change files, until the process ends; 0: no limit

void count_call() {
  if (calls_left > 0 && --calls_left == 0) ::_exit(1);
}
}  // namespace

// These replace the functions of the C library in this program.
extern "C" {
ssize_t pwrite64(int fd, const void* from, std::size_t size, off64_t offset) {
  count_call();
  return ::syscall(SYS_pwrite64, fd, from, size, offset);
}
ssize_t pwrite(int fd, const void* from, std::size_t size, off_t offset) {
  return ::pwrite64(fd, from, size, offset);
}
int fdatasync(int) {  // does nothing: the end of a process loses nothing that was written
  count_call();
  return 0;
}
int fsync(int) {
  count_call();
  return 0;
}
int rename(const char* from, const char* to) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_rename, from, to));
}
}

namespace pfc::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::size_t kCount = 40;
using Pages = std::array<std::uint32_t, kCount>;  // the first number of each page

class Kept : public ::testing::Test {
 protected:
  [[nodiscard]] KeptName name() const { return {folder_.path() / "tables", "0-of-1"}; }
  [[nodiscard]] std::unique_ptr<KeptPages> create() const {
    return KeptPages::create(name(), kCount * kPageBytes);
  }
  [[nodiscard]] std::unique_ptr<KeptPages> take_over(const std::string& checkpoint) const {
    return KeptPages::take_over(name(), checkpoint, kCount * kPageBytes);
  }

  /// Writes pages of this number. All numbers of a page are the same.
  static void write(KeptPages& file, Pages& now, std::size_t first, std::size_t count,
                    std::uint32_t number) {
    const PageBuffer bytes(count);
    std::fill_n(reinterpret_cast<std::uint32_t*>(bytes.page(0)), count * kPageBytes / 4, number);
    file.write(first * kPageBytes, {bytes.page(0), count * kPageBytes});
    std::fill_n(now.begin() + static_cast<std::ptrdiff_t>(first), count, number);
  }
  void write_some(KeptPages& file, Pages& now) {
    const std::size_t first = random_() % kCount;
    write(file, now, first, 1 + random_() % std::min<std::size_t>(5, kCount - first), ++number_);
  }

  [[nodiscard]] Pages read(const std::string& checkpoint) const {
    const PagesOfCheckpoint pages(name(), checkpoint);
    std::vector<std::uint32_t> all(kCount * kPageBytes / 4);
    pages.read(0, std::as_writable_bytes(std::span(all)));
    Pages first{};
    for (std::size_t p = 0; p < kCount; ++p) {
      first[p] = all[p * kPageBytes / 4];
      EXPECT_EQ(first[p], all[(p + 1) * kPageBytes / 4 - 1]) << "page " << p << " is mixed";
    }
    return first;
  }
  [[nodiscard]] static Pages read(KeptPages& file) {
    const PageBuffer bytes(1);
    Pages pages{};
    for (std::size_t p = 0; p < kCount; ++p) {
      file.read(p * kPageBytes, {bytes.page(0), kPageBytes});
      std::memcpy(&pages[p], bytes.page(0), sizeof pages[p]);
    }
    return pages;
  }

  /// Runs `work` in a process that ends before its call number `calls` of a function that changes
  /// files. Returns whether `work` was finished, and the last text that it passed to its argument.
  struct Stopped {
    bool finished = false;
    std::string last;
  };
  static Stopped stop_after(int calls,
                            const std::function<void(const std::function<void(char)>&)>& work) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      calls_left = calls;
      work([&](char done) { static_cast<void>(::write(ends[1], &done, 1)); });
      ::_exit(0);
    }
    ::close(ends[1]);
    Stopped stopped;
    for (char done = 0; ::read(ends[0], &done, 1) == 1;) stopped.last = std::string(1, done);
    ::close(ends[0]);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    stopped.finished = WEXITSTATUS(status) == 0;
    return stopped;
  }

  const TemporaryFolder folder_;
  std::mt19937 random_{7};
  std::uint32_t number_ = 0;
};

TEST_F(Kept, ReadsEveryCheckpointAndContinuesFromAnyOfThem) {
  std::map<std::string, Pages> expected;
  Pages now{};
  auto file = create();
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 6; ++i) {
      for (unsigned writes = random_() % 9; writes > 0; --writes) write_some(*file, now);
      const std::string checkpoint = std::to_string(100 + round) + "." + std::to_string(i);
      file->add_checkpoint(checkpoint);
      expected[checkpoint] = now;
    }
    for (int writes = 0; writes < 5; ++writes) write_some(*file, now);
    file.reset();
    for (const auto& [checkpoint, pages] : expected) EXPECT_EQ(read(checkpoint), pages);
    const auto chosen = std::next(expected.begin(), random_() % std::ssize(expected));
    now = chosen->second;
    file = take_over(chosen->first);
    EXPECT_EQ(read(*file), now);
    expected.erase(std::next(chosen), expected.end());
  }
}

TEST_F(Kept, ReadsBytesOfAnyAlignment) {
  Pages now{};
  auto file = create();
  for (std::uint32_t p = 0; p < kCount; ++p) write(*file, now, p, 1, p + 1);
  file->add_checkpoint("1");
  for (int i = 0; i < 10; ++i) write_some(*file, now);
  file.reset();
  const PagesOfCheckpoint pages(name(), "1");
  std::vector<std::byte> all(kCount * kPageBytes), some;
  pages.read(0, all);
  for (int i = 0; i < 300; ++i) {
    const std::size_t begin = random_() % all.size();
    some.resize(1 + random_() % std::min<std::size_t>(all.size() - begin, 3 * kPageBytes));
    pages.read(begin, some);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + static_cast<long>(begin)));
  }
}

TEST_F(Kept, KeepsCheckpointsWhereverTheProcessEnds) {
  int calls = 1;
  for (bool finished = false; !finished; ++calls) {
    std::filesystem::remove_all(name().folder);
    std::map<std::string, Pages> expected;
    Pages now{};
    random_.seed(5);
    number_ = 0;
    // The child's copies of these objects are lost, so the same is computed here.
    const auto work = [&](const std::function<void(char)>& done) {
      Pages pages{};
      auto file = create();
      for (char checkpoint = 'a'; checkpoint < 'd'; ++checkpoint) {
        for (int i = 0; i < 2; ++i) write_some(*file, pages);
        file->add_checkpoint(std::string(1, checkpoint));
        done(checkpoint);
      }
    };
    const Stopped stopped = stop_after(calls, work);
    finished = stopped.finished;
    if (stopped.last.empty()) continue;
    std::filesystem::path other = name().folder;
    other += ".other";
    auto reference = KeptPages::create({other, "0-of-1"}, kCount * kPageBytes);
    for (char checkpoint = 'a'; checkpoint <= stopped.last[0]; ++checkpoint) {
      for (int i = 0; i < 2; ++i) write_some(*reference, now);
      expected[std::string(1, checkpoint)] = now;
    }
    std::filesystem::remove_all(other);
    for (const auto& [checkpoint, pages] : expected) {
      ASSERT_EQ(read(checkpoint), pages) << checkpoint << " after call " << calls;
    }
    ASSERT_EQ(read(*take_over(stopped.last)), now) << "after call " << calls;
  }
  EXPECT_GT(calls, 30);
}

TEST_F(Kept, RepeatsAnInterruptedReturnToACheckpoint) {
  Pages first{}, second{}, now{};
  auto file = create();
  for (int i = 0; i < 2; ++i) write_some(*file, now);
  file->add_checkpoint("1");
  first = now;
  for (int i = 0; i < 2; ++i) write_some(*file, now);
  file->add_checkpoint("2");
  second = now;
  for (const char* checkpoint : {"3", "4"}) {
    for (int i = 0; i < 2; ++i) write_some(*file, now);
    file->add_checkpoint(checkpoint);
  }
  for (int i = 0; i < 2; ++i) write_some(*file, now);
  file.reset();
  std::filesystem::path saved = name().folder;
  saved += ".saved";
  std::filesystem::copy(name().folder, saved);
  int calls = 1;
  for (bool finished = false; !finished; ++calls) {
    std::filesystem::remove_all(name().folder);
    std::filesystem::copy(saved, name().folder);
    const auto work = [&](const auto&) { static_cast<void>(take_over("2")); };
    finished = stop_after(calls, work).finished;
    ASSERT_EQ(read("1"), first) << "after call " << calls;
    ASSERT_EQ(read("2"), second) << "after call " << calls;
    ASSERT_EQ(read(*take_over("2")), second) << "after call " << calls;
  }
  EXPECT_GT(calls, 15);
}

TEST_F(Kept, IgnoresAnIncompleteGroupAtTheEndOfALog) {
  Pages now{};
  auto file = create();
  for (int i = 0; i < 5; ++i) write_some(*file, now);
  file->add_checkpoint("1");
  const Pages expected = now;
  write(*file, now, 3, 2, 100);
  const auto log = name().log("1");
  const auto one_group = read_file(log);
  const auto pages = read_file(name().pages());
  write(*file, now, 20, 3, 200);
  file.reset();
  const auto two_groups = read_file(log);
  ASSERT_EQ(two_groups.size() - one_group.size(), 4 * kPageBytes);
  write_file(name().pages(), pages);  // as before the second write
  for (std::size_t size = one_group.size(); size < two_groups.size(); size += 1300) {
    auto torn = two_groups;
    torn.resize(size);
    write_file(log, torn);
    ASSERT_EQ(read("1"), expected) << size;
    torn.resize(two_groups.size());  // zeros, as after a loss of power
    write_file(log, torn);
    ASSERT_EQ(read("1"), expected) << size;
  }
}

TEST_F(Kept, NamesDamagedAndMissingFiles) {
  Pages now{};
  auto file = create();
  for (const char* checkpoint : {"1", "2", "3"}) {
    file->add_checkpoint(checkpoint);
    for (std::size_t p = 0; p < kCount; ++p) write(*file, now, p, 1, 5);
  }
  file.reset();
  const auto error = [&](const char* checkpoint) {
    return message_of<InputError>([&] { static_cast<void>(read(checkpoint)); });
  };
  const auto whole = read_file(name().log("2"));
  for (const std::size_t offset : {std::size_t{5000}, whole.size() - 5000}) {
    auto bytes = whole;
    bytes[offset] ^= std::byte{1};
    write_file(name().log("2"), bytes);
    EXPECT_THAT(error("1"), HasSubstr("0-of-1.undo-2: the pages at offset " +
                                      std::to_string(offset / 8192 * 8192) + " are damaged"));
  }
  static_cast<void>(read("3"));
  std::filesystem::remove(name().log("2"));
  EXPECT_THAT(error("1"), HasSubstr("0-of-1.undo-2: missing"));
  EXPECT_THAT(error("9"), HasSubstr("0-of-1.json: does not list checkpoint 9: "));
  std::filesystem::resize_file(name().pages(), kPageBytes);
  EXPECT_THAT(error("3"), HasSubstr("0-of-1.pages: 4096 bytes, expected 163840"));
  std::filesystem::remove(name().list());
  EXPECT_THAT(error("3"), HasSubstr("0-of-1.json: missing"));
}

TEST_F(Kept, KeepsTheCheckpointIfTheLogCannotGrow) {
  Pages now{};
  auto file = create();
  for (std::uint32_t p = 0; p < kCount; ++p) write(*file, now, p, 1, p + 1);
  file->add_checkpoint("1");
  const Pages expected = now;
  {
    const FileSizeLimit limit(10 * kPageBytes);
    std::size_t p = 0;
    const std::string text = message_of<StorageError>([&] {
      for (; p < kCount / 4; ++p) write(*file, now, p, 1, 7);
    });
    EXPECT_THAT(text, HasSubstr("undo-1: cannot write"));
    EXPECT_GT(p, 2U);
    EXPECT_EQ(message_of<StorageError>([&] { write(*file, now, 8, 1, 7); }), text);
  }
  file.reset();
  EXPECT_EQ(read("1"), expected);
  EXPECT_EQ(read(*take_over("1")), expected);
}

TEST_F(Kept, DropsNoMoreThanTheLastGroupOfALog) {
  Pages now{};
  auto file = create();
  file->add_checkpoint("1");
  for (std::size_t p = 0; p < 8; ++p) write(*file, now, p, 1, 5);
  file.reset();
  const auto whole = read_file(name().log("1"));
  for (std::size_t group = 0; group < 7; ++group) {
    for (const std::size_t offset : {std::size_t{0}, std::size_t{16}, kPageBytes}) {
      auto bytes = whole;
      bytes[group * 2 * kPageBytes + offset] ^= std::byte{1};
      write_file(name().log("1"), bytes);
      EXPECT_THAT(message_of<InputError>([&] { static_cast<void>(take_over("1")); }),
                  HasSubstr("undo-1: the pages at offset " +
                            std::to_string(group * 2 * kPageBytes) + " are damaged"));
    }
  }
}

TEST_F(Kept, ChangesNothingAfterACheckpointHasFailed) {
  Pages now{};
  auto file = create();
  write_some(*file, now);
  file->add_checkpoint("1");
  const Pages expected = now;
  write_some(*file, now);
  std::filesystem::create_directories(name().list().string() + ".tmp/in_the_way");
  EXPECT_THROW(file->add_checkpoint("2"), StorageError);
  std::filesystem::remove_all(name().list().string() + ".tmp");
  const std::string failed = "0-of-1.pages: not changed any more, because a checkpoint failed";
  EXPECT_THAT(message_of<StorageError>([&] { write(*file, now, 0, kCount, 9); }),
              HasSubstr(failed));
  EXPECT_THAT(message_of<StorageError>([&] { file->add_checkpoint("3"); }), HasSubstr(failed));
  file.reset();
  EXPECT_EQ(read("1"), expected);
  EXPECT_EQ(read(*take_over("1")), expected);
}

TEST_F(Kept, TakesNoCheckpointOfAFileThatWasReplaced) {
  auto file = create();
  file->add_checkpoint("1");
  const auto pages = name().pages();
  std::filesystem::rename(pages, pages.string() + ".old");
  const auto add = [&] { file->add_checkpoint("2"); };
  EXPECT_THAT(message_of<StorageError>(add), HasSubstr("0-of-1.pages: was removed or replaced"));
  file.reset();
  std::filesystem::rename(pages.string() + ".old", pages);
  file = take_over("1");
  std::filesystem::copy(pages, pages.string() + ".copy");
  std::filesystem::rename(pages.string() + ".copy", pages);
  EXPECT_THAT(message_of<StorageError>(add), HasSubstr("0-of-1.pages: was removed or replaced"));
}

TEST_F(Kept, ChecksAllPagesOfTheLogsBeforeItWritesOne) {
  Pages now{};
  auto file = create();
  for (const char* checkpoint : {"1", "2"}) {
    file->add_checkpoint(checkpoint);
    for (std::size_t p = kCount - 3; p < kCount; ++p) write(*file, now, p, 1, ++number_);
  }
  file.reset();
  const auto whole = read_file(name().pages());
  std::filesystem::resize_file(name().pages(), (kCount - 1) * kPageBytes);
  const std::string list = R"({"bytes": )" + std::to_string((kCount - 1) * kPageBytes) + "}";
  const auto smaller = [&] {
    static_cast<void>(KeptPages::take_over(name(), "1", (kCount - 1) * kPageBytes));
  };
  const std::string text = R"(, "checkpoints": ["1", "2"]})";
  write_file(name().list(), list.substr(0, list.size() - 1) + text);
  EXPECT_THAT(message_of<InputError>(smaller),
              HasSubstr("undo-2: has page 39 of a file of 39 pages"));
  EXPECT_THAT(message_of<InputError>([&] { static_cast<void>(read("1")); }),
              HasSubstr("undo-1: has page 39 of a file of 39 pages"));
  EXPECT_TRUE(std::ranges::equal(read_file(name().pages()),
                                 std::span(whole).first((kCount - 1) * kPageBytes)));
  EXPECT_THAT(message_of<InputError>([&] { static_cast<void>(take_over("1")); }),
              HasSubstr("0-of-1.json: \"bytes\" is 159744, expected 163840"));
  write_file(name().list(), R"({"bytes": 159744, "checkpoints": ["../1"]})");
  EXPECT_THAT(message_of<InputError>(smaller), HasSubstr("0-of-1.json: expected a number"));
}

TEST_F(Kept, DeletesANewFileWithoutACheckpoint) {
  auto file = create();
  file.reset();
  EXPECT_FALSE(std::filesystem::exists(name().folder));
  const FileSizeLimit limit(10 * kPageBytes);
  EXPECT_THROW(create(), StorageError);
  EXPECT_FALSE(std::filesystem::exists(name().folder));
}

TEST_F(Kept, LocksThePagesWhileTheyMayChange) {
  auto file = create();
  file->add_checkpoint("1");
  EXPECT_THAT(message_of<CommError>([&] { PagesOfCheckpoint(name(), "1", 150ms); }),
              HasSubstr("0-of-1.pages: a job is changing these class centres; wait until the job "
                        "in " +
                        (folder_.path() / ".lock").string() + " has ended"));
  EXPECT_THAT(message_of<CommError>([&] { KeptPages::take_over(name(), "1", kCount, 150ms); }),
              HasSubstr("0-of-1.pages is still used by an earlier worker of this job"));
  file.reset();
  const PagesOfCheckpoint one(name(), "1", 0ms), other(name(), "1", 0ms);
  EXPECT_THROW(KeptPages::take_over(name(), "1", kCount, 0ms), CommError);
}

// Many threads read, write and log at the same time.
TEST_F(Kept, KeepsCheckpointsOfAPagedMemory) {
  Pages now{};
  std::map<std::string, Pages> expected;
  std::string last;
  for (int life = 0; life < 4; ++life) {
    std::unique_ptr<KeptPages> file = last.empty() ? create() : take_over(last);
    KeptPages& kept = *file;
    if (!last.empty()) now = expected.at(last);
    PagedMemory memory(std::move(file), {.bytes = kCount * kPageBytes,
                                         .limit = 12 * kPageBytes,
                                         .window = 8 * kPageBytes,
                                         .threads = 6,
                                         .stored = !last.empty()});
    for (int step = 1; step <= 70; ++step) {
      const auto first = static_cast<std::int64_t>(random_() % (kCount - 10));
      const auto pages = memory.read_ahead({{first, 3}, {first + 5, step % 5 + 1}});
      pages->wait();
      for (const std::int64_t p : {first, first + 2, first + 5}) {
        auto* const number = reinterpret_cast<std::uint32_t*>(memory.data() + p * 4096);
        ASSERT_EQ(number[0], now[static_cast<std::size_t>(p)]);
        std::fill_n(number, kPageBytes / 4, now[static_cast<std::size_t>(p)] = ++number_);
      }
      if (step % 20 != 0) continue;
      memory.write_back();
      last = std::to_string(life) + "." + std::to_string(step);
      kept.add_checkpoint(last);
      expected[last] = now;
    }
  }
  for (const auto& [checkpoint, pages] : expected) EXPECT_EQ(read(checkpoint), pages) << checkpoint;
}

TEST_F(Kept, NeedsNoLogsOfOlderCheckpoints) {
  Pages now{};
  auto file = create();
  for (const char* checkpoint : {"1", "2"}) {
    file->add_checkpoint(checkpoint);
    write_some(*file, now);
  }
  std::filesystem::remove(name().log("1"));
  file->add_checkpoint("3");
  const Pages expected = now;
  write_some(*file, now);
  file.reset();
  EXPECT_EQ(read("3"), expected);
  EXPECT_THAT(message_of<InputError>([&] { static_cast<void>(read("1")); }),
              HasSubstr("does not list checkpoint 1"));
}

}  // namespace
}  // namespace pfc::testing
