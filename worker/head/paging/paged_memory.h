// A range of virtual memory whose pages are in a file. Only a limited number of pages is in memory.
// Its user says in advance which pages it will use. These are read in the background, and stay in
// memory while they are pinned. When memory is needed, the least recently used pages leave first.
// Changed ones are then written back, also in the background.
//
// A page that is not pinned may be missing from memory: what is read from it may be zeros, and what
// is written to it may be lost.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "worker/head/paging/page_file.h"

namespace pfc {

/// Consecutive pages of kPageBytes each.
struct PageRange {
  std::int64_t first = 0, count = 0;
};

struct PagedMemoryOptions {
  std::size_t bytes = 0;  ///< of the whole range, a multiple of kPageBytes
  std::size_t limit = 0;  ///< memory for pages that were read ahead, and for pages used before
  /// Memory for pages of pin(), beyond `limit`.
  std::size_t window = kDefaultWindow;
  int threads = 32;     ///< reads and writes that are in progress at the same time
  bool stored = false;  ///< the file has the content of all pages; false: all pages have zeros

  static constexpr std::size_t kDefaultWindow = std::size_t{32} << 20;
};

enum class PageUse { kRead, kChange };

/// Totals since the start, in pages.
struct PagingCounters {
  std::int64_t used = 0;  ///< pinned pages; a page counts each time it is pinned
  std::int64_t hits = 0;  ///< of these, pages that were in memory
  std::int64_t read = 0, written = 0;
  double waited_seconds = 0;  ///< time that wait() and pin() blocked
};

class PagedMemory;

/// Pages that stay in memory while this object exists. REQUIRES: destroyed before the PagedMemory.
class PinnedPages {
 public:
  ~PinnedPages();
  PinnedPages(const PinnedPages&) = delete;
  PinnedPages& operator=(const PinnedPages&) = delete;

  /// Blocks until all pages are in memory. From then on, the caller may change them. Throws
  /// StorageError if the file could not be read or written. Throws InputError if all pinned pages
  /// together exceed the limit.
  void wait();

 private:
  friend class PagedMemory;
  PinnedPages(PagedMemory& memory, std::vector<PageRange> ranges, bool in_window);

  PagedMemory& memory_;
  const std::vector<PageRange> ranges_;
  const bool in_window_;  // created by pin()
  // Guarded by the mutex of the PagedMemory:
  std::size_t range_ = 0;  // with page_, the position of the first page that is not yet pinned
  std::int64_t page_ = 0;
  std::int64_t left_ = 0;  // pages not yet pinned
};

/// read_ahead() may be called by any thread. One thread calls pin() and PinnedPages::wait().
class PagedMemory {
 public:
  /// Throws DeviceError if the address space or threads are not available.
  PagedMemory(std::unique_ptr<PageFile> file, const PagedMemoryOptions& options);
  ~PagedMemory();
  PagedMemory(const PagedMemory&) = delete;
  PagedMemory& operator=(const PagedMemory&) = delete;

  [[nodiscard]] std::byte* data() { return data_; }

  /// Begins to read these pages (sorted, without overlap) and returns. The reads of several calls
  /// are begun in the order of the calls, as soon as there is room.
  std::shared_ptr<PinnedPages> read_ahead(std::vector<PageRange> ranges);
  /// Reads these pages and returns when they are in memory. They use memory beyond the limit, so
  /// this never waits for pages of read_ahead() to be released. Throws StorageError if the file
  /// could not be read or written. REQUIRES: pages of pin() together fit in the window.
  std::unique_ptr<PinnedPages> pin(std::vector<PageRange> ranges, PageUse use);
  /// Writes all changed pages to the file, and returns when they are there. Pages stay in memory.
  /// Throws StorageError. Called by the thread of pin(). REQUIRES: no caller changes a page.
  void write_back();
  /// Returns whether all these pages are pinned and in memory.
  [[nodiscard]] bool holds(std::span<const PageRange> ranges) const;
  [[nodiscard]] std::size_t window() const { return options_.window; }
  [[nodiscard]] PagingCounters counters() const;

  /// Returns the memory that a PagedMemory of this many bytes needs to keep track of its pages,
  /// including the kernel's page table.
  [[nodiscard]] static std::size_t record_bytes(std::size_t bytes) {
    constexpr std::size_t kKernelRecord = 8;  // an entry of the page table
    return bytes / kPageBytes * (sizeof(Page) + kKernelRecord);
  }

 private:
  friend class PinnedPages;
  using Lock = std::unique_lock<std::mutex>;
  enum class State : std::uint8_t { kAbsent, kReading, kResident, kWriting };
  struct Page {
    std::uint16_t pins = 0;
    std::uint8_t window_pins = 0;  // of these, pins of pin()
    State state : 2 = State::kAbsent;
    bool dirty : 1 = false;   // differs from the file
    bool stored : 1 = false;  // is in the file; otherwise an absent page has zeros
    bool listed : 1 = false;  // is in unpinned_
    bool again : 1 = false;   // was pinned since it was listed
  };
  struct Request {
    bool write = false;
    std::int64_t first = 0, count = 0;
  };
  enum class Progress { kDone, kSome, kNoRoom };

  void release(PinnedPages& set);
  void wait(PinnedPages& set);
  void wait_until_resident(Lock& lock, const PinnedPages& set, PageUse use);
  void plan();
  void plan_until_closed(Lock& lock);
  Progress pin_some(PinnedPages& set, std::int64_t limit);
  void take(std::int64_t page, bool in_window);
  bool make_room(std::int64_t limit, std::int64_t wanted);
  std::optional<std::int64_t> least_recently_used();
  void begin_to_write(std::int64_t page);
  void drop(std::int64_t first, std::int64_t count);
  void submit(bool write, std::int64_t page);
  void serve();
  void transfer(const Request& request);
  void finish(const Request& request);
  void fail(std::exception_ptr error);
  void stop();
  void throw_too_small(const PinnedPages& set);
  [[nodiscard]] Page& at(std::int64_t page) { return pages_[static_cast<std::size_t>(page)]; }

  const std::unique_ptr<PageFile> file_;
  const PagedMemoryOptions options_;
  const std::int64_t limit_, window_;  // pages
  std::byte* data_ = nullptr;

  mutable std::mutex mutex_;
  std::condition_variable work_;     // of the threads of serve(): requests_
  std::condition_variable planner_;  // of the thread of plan(): ahead_, room
  std::condition_variable landed_;   // of the user's thread: awaited_, room
  // Guarded by mutex_:
  std::vector<Page> pages_;
  std::deque<std::uint32_t> unpinned_;  // least recently used first; may list pinned pages
  std::deque<PinnedPages*> ahead_;      // sets that are not completely pinned
  std::deque<Request> requests_;
  std::int64_t resident_ = 0;        // pages not absent
  std::int64_t reading_ = 0;         // pages in state kReading
  std::int64_t leaving_ = 0;         // pages in state kWriting
  std::int64_t pinned_ = 0;          // pages that sets of read_ahead() have pinned, at most limit_
  std::int64_t awaited_ = kNothing;  // page or event for which the user's thread waits
  bool out_of_room_ = false;         // ahead_.front() needs room, and all pages are pinned
  bool closed_ = false;
  std::exception_ptr error_;
  PagingCounters counters_;

  static constexpr std::int64_t kNothing = -1, kRoom = -2, kAllPinned = -3;
  std::vector<std::thread> threads_;
};

}  // namespace pfc
