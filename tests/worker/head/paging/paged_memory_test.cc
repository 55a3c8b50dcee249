#include "worker/head/paging/paged_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kPages = 300;

/// A file in memory. Reads and writes fail from call number `fails_at` on, counted from 1; 0: never
/// fail.
class FakeFile : public PageFile {
 public:
  explicit FakeFile(int fails_at = 0) : fails_at_(fails_at), bytes_(kPages * kPageBytes) {}
  void read(std::uint64_t offset, std::span<std::byte> to) override {
    count();
    std::memcpy(to.data(), bytes_.data() + offset, to.size());
  }
  void write(std::uint64_t offset, std::span<const std::byte> from) override {
    count();
    std::memcpy(bytes_.data() + offset, from.data(), from.size());
  }
  /// Returns the first number of a page.
  [[nodiscard]] std::uint32_t number(std::int64_t page) const {
    std::uint32_t first = 0;
    std::memcpy(&first, bytes_.data() + static_cast<std::size_t>(page) * kPageBytes, sizeof first);
    return first;
  }

 private:
  void count() {
    if (++calls_ >= fails_at_ && fails_at_ > 0) throw StorageError("disk: broken");
  }
  const int fails_at_;
  std::atomic<int> calls_{0};
  std::vector<std::byte> bytes_;
};

class Paged : public ::testing::Test {
 protected:
  static PagedMemory make(std::int64_t limit, std::unique_ptr<PageFile> file) {
    return {std::move(file),
            {.bytes = kPages * kPageBytes,
             .limit = static_cast<std::size_t>(limit) * kPageBytes,
             .window = 16 * kPageBytes,
             .threads = 4}};
  }
  static PagedMemory make(std::int64_t limit) { return make(limit, std::make_unique<FakeFile>()); }

  /// Returns the first number of a page.
  static std::uint32_t& number(PagedMemory& memory, std::int64_t page) {
    return *reinterpret_cast<std::uint32_t*>(memory.data() +
                                             static_cast<std::size_t>(page) * kPageBytes);
  }

  static std::int64_t pages_in_memory(PagedMemory& memory) {
    std::vector<unsigned char> in_memory(kPages);
    EXPECT_EQ(::mincore(memory.data(), kPages * kPageBytes, in_memory.data()), 0);
    return std::ranges::count_if(in_memory, [](unsigned char page) { return (page & 1) != 0; });
  }

  std::vector<PageRange> random_pages(std::int64_t count) {
    std::set<std::int64_t> pages;
    std::uniform_int_distribution<std::int64_t> any(0, kPages - 1);
    while (std::ssize(pages) < count) {
      const std::int64_t page = any(random_);
      for (std::int64_t p = page; p < std::min(page + 5, kPages); ++p) pages.insert(p);
    }
    std::vector<PageRange> ranges;
    for (const std::int64_t p : pages) {
      if (!ranges.empty() && ranges.back().first + ranges.back().count == p) {
        ++ranges.back().count;
      } else {
        ranges.push_back({p, 1});
      }
    }
    return ranges;
  }

  std::mt19937_64 random_{3};
};

TEST_F(Paged, KeepsWhatWasWrittenAndStaysBelowTheLimit) {
  for (const std::int64_t limit : {20, 45, 300}) {
    PagedMemory memory = make(limit);
    std::vector<std::uint32_t> expected(kPages);
    struct Ahead {
      std::vector<PageRange> ranges;
      std::shared_ptr<PinnedPages> pages;
    };
    std::deque<Ahead> ahead;
    for (std::uint32_t step = 1; step <= 200; ++step) {
      while (ahead.size() < 3) {
        auto ranges = random_pages(16);
        auto pages = memory.read_ahead(ranges);
        ahead.push_back({std::move(ranges), std::move(pages)});
      }
      ahead.front().pages->wait();
      EXPECT_TRUE(memory.holds(ahead.front().ranges));
      for (const PageRange& range : ahead.front().ranges) {
        for (std::int64_t p = range.first; p < range.first + range.count; ++p) {
          ASSERT_EQ(number(memory, p), expected[static_cast<std::size_t>(p)]) << step;
          number(memory, p) = expected[static_cast<std::size_t>(p)] = step * 1000;
        }
      }
      ASSERT_LE(pages_in_memory(memory), limit + 16);
      ahead.pop_front();
      if (step % 50 != 0) continue;
      for (std::int64_t p = 0; p < kPages; p += 16) {  // a pass over all pages
        const PageRange range{p, std::min<std::int64_t>(16, kPages - p)};
        const auto pinned = memory.pin({range}, PageUse::kRead);
        for (std::int64_t q = p; q < p + range.count; ++q) {
          ASSERT_EQ(number(memory, q), expected[static_cast<std::size_t>(q)]) << step;
        }
      }
    }
  }
}

TEST_F(Paged, CountsHitsAndWritesOnlyChangedPages) {
  PagedMemory memory = make(40);
  const auto use = [&](std::int64_t first, PageUse how) {
    const auto pinned = memory.pin({{first, 10}}, how);
  };
  for (std::int64_t first = 0; first < kPages; first += 10) use(first, PageUse::kRead);
  EXPECT_EQ(memory.counters().written, 0);
  EXPECT_EQ(memory.counters().read, 0);  // a page that was never written has zeros
  EXPECT_EQ(memory.counters().hits, 0);
  for (std::int64_t first = 0; first < kPages; first += 10) use(first, PageUse::kChange);
  const std::int64_t hits = memory.counters().hits;
  use(kPages - 10, PageUse::kRead);
  EXPECT_EQ(memory.counters().hits, hits + 10);
  EXPECT_GE(memory.counters().written, kPages - 56);
  EXPECT_EQ(memory.counters().used, 2 * kPages + 10);
}

TEST_F(Paged, KeepsTheMostRecentlyUsedPages) {
  PagedMemory memory = make(30);
  const auto use = [&](std::int64_t first) { memory.read_ahead({{first, 10}})->wait(); };
  for (const std::int64_t first : {0, 10, 20, 0, 30, 40}) use(first);
  const std::int64_t hits = memory.counters().hits;
  use(40);
  use(0);
  EXPECT_EQ(memory.counters().hits, hits + 20);
}

TEST_F(Paged, ReleasesPagesForWhichNoCallerWaited) {
  PagedMemory memory = make(20);
  {
    auto first = memory.read_ahead({{0, 15}});
    const auto second = memory.read_ahead({{20, 15}});  // has no room yet
    const auto third = memory.read_ahead({{40, 15}});
    first->wait();
    first.reset();
  }
  memory.read_ahead({{60, 20}})->wait();
  EXPECT_LE(pages_in_memory(memory), 36);
}

TEST_F(Paged, WritesBackAllChangedPagesAndKeepsThemInMemory) {
  auto file = std::make_unique<FakeFile>();
  FakeFile& stored = *file;
  PagedMemory memory = make(60, std::move(file));
  std::vector<std::uint32_t> expected(kPages);
  std::uint32_t next = 0;
  for (int round = 0; round < 20; ++round) {
    for (int step = 0; step < 5; ++step) {
      const auto ranges = random_pages(16);
      const auto pages = memory.read_ahead(ranges);
      pages->wait();
      for (const PageRange& range : ranges) {
        for (std::int64_t p = range.first; p < range.first + range.count; ++p) {
          number(memory, p) = expected[static_cast<std::size_t>(p)] = ++next;
        }
      }
    }
    const auto ahead = memory.read_ahead(random_pages(16));  // of the next step
    ahead->wait();
    const std::int64_t in_memory = pages_in_memory(memory);
    memory.write_back();
    EXPECT_GE(pages_in_memory(memory), in_memory);
    for (std::int64_t p = 0; p < kPages; ++p) {
      ASSERT_EQ(stored.number(p), expected[static_cast<std::size_t>(p)]) << "page " << p;
    }
    const std::int64_t written = memory.counters().written;
    memory.write_back();
    EXPECT_EQ(memory.counters().written, written);
  }
}

TEST_F(Paged, ReadsTheContentOfAFileThatHasAllPages) {
  auto file = std::make_unique<FakeFile>();
  const std::vector<std::uint32_t> sevens(kPageBytes / sizeof(std::uint32_t), 7);
  file->write(5 * kPageBytes, std::as_bytes(std::span(sevens)));
  PagedMemory memory(
      std::move(file),
      {.bytes = kPages * kPageBytes, .limit = 20 * kPageBytes, .threads = 1, .stored = true});
  const auto pinned = memory.pin({{5, 1}}, PageUse::kRead);
  EXPECT_EQ(number(memory, 5), 7U);
}

TEST_F(Paged, PassesErrorsOfTheFileToTheCaller) {
  for (const int call : {1, 7, 40}) {
    PagedMemory memory = make(20, std::make_unique<FakeFile>(call));
    const std::string text = message_of<StorageError>([&] {
      for (int step = 0; step < 1000; ++step) memory.read_ahead(random_pages(15))->wait();
    });
    EXPECT_EQ(text, "disk: broken");
    EXPECT_EQ(message_of<StorageError>([&] { memory.pin({{0, 1}}, PageUse::kRead); }), text);
  }
}

TEST_F(Paged, RejectsPinnedPagesBeyondTheLimit) {
  PagedMemory memory = make(20);
  const auto first = memory.read_ahead({{0, 15}});
  first->wait();
  const auto second = memory.read_ahead({{10, 15}});
  EXPECT_THAT(message_of<InputError>([&] { second->wait(); }),
              HasSubstr("centre_cache: the class centres of one step need"));
  const auto pinned = memory.pin({{30, 16}}, PageUse::kChange);  // has memory of its own
  EXPECT_THROW(memory.pin({{50, 16}}, PageUse::kChange), std::logic_error);
}

TEST(PageFile, KeepsPagesInAFileWithoutAName) {
  const TemporaryFolder folder;
  const auto file = make_page_file(folder.path() / "new", 10 * kPageBytes);
  PagedMemory aligned(make_page_file(folder.path(), 2 * kPageBytes),
                      {.bytes = 2 * kPageBytes, .limit = 2 * kPageBytes, .threads = 1});
  const std::span<std::byte> page(aligned.data(), kPageBytes);
  std::ranges::fill(page, std::byte{7});
  file->write(3 * kPageBytes, page);
  std::ranges::fill(page, std::byte{0});
  file->read(3 * kPageBytes, page);
  EXPECT_EQ(std::ranges::count(page, std::byte{7}), std::ssize(page));
  file->read(4 * kPageBytes, page);
  EXPECT_EQ(std::ranges::count(page, std::byte{0}), std::ssize(page));
  EXPECT_THAT(message_of<StorageError>([&] { file->read(10 * kPageBytes, page); }),
              HasSubstr("cannot read 4096 bytes at offset 40960: the file ends there"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "new"));
}

TEST(PageFile, RejectsMoreBytesThanTheDiskHas) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      message_of<StorageError>([&] { make_page_file(folder.path(), std::uint64_t{1} << 60); }),
      HasSubstr("cannot reserve 1024 PiB for the class centres of a worker"));
}

}  // namespace
}  // namespace pfc::testing
