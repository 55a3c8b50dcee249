#include "worker/head/paging/paged_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "common/byte_size.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/files/file_error.h"

namespace pfc {
namespace {

constexpr std::int64_t kMostPagesOfRequest = 64;  // 256 KiB
constexpr std::int64_t kMostLeaving = 1024;       // pages that wait to be written
constexpr std::int64_t kPagesPerTurn = 256;       // pinned without releasing the mutex

std::int64_t pages_of(std::size_t bytes) { return static_cast<std::int64_t>(bytes / kPageBytes); }

std::byte* reserve_addresses(std::size_t bytes) {
  void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    throw DeviceError("cannot reserve " + byte_size_text(bytes) +
                      " of addresses for class centres: " + file_error_text(errno));
  }
  // A huge page would bring absent pages into memory. Fails if the kernel has no huge pages.
  static_cast<void>(::madvise(address, bytes, MADV_NOHUGEPAGE));
  return static_cast<std::byte*>(address);
}

}  // namespace

PinnedPages::PinnedPages(PagedMemory& memory, std::vector<PageRange> ranges, bool in_window)
    : memory_(memory), ranges_(std::move(ranges)), in_window_(in_window) {
  for (const PageRange& range : ranges_) left_ += range.count;
}

PinnedPages::~PinnedPages() { memory_.release(*this); }

void PinnedPages::wait() { memory_.wait(*this); }

PagedMemory::PagedMemory(std::unique_ptr<PageFile> file, const PagedMemoryOptions& options)
    : file_(std::move(file)),
      options_(options),
      limit_(pages_of(options.limit)),
      window_(pages_of(options.window)) {
  check(options.bytes % kPageBytes == 0 &&
            pages_of(options.bytes) <= std::numeric_limits<std::uint32_t>::max(),
        "paged memory: its size must be whole pages, fewer than 2^32");
  if (static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) != kPageBytes) {
    throw DeviceError("centre_storage disk needs a kernel with pages of 4096 bytes; this one has " +
                      std::to_string(::sysconf(_SC_PAGESIZE)));
  }
  pages_.resize(static_cast<std::size_t>(pages_of(options.bytes)), Page{.stored = options.stored});
  if (options.bytes > 0) data_ = reserve_addresses(options.bytes);
  try {
    threads_.emplace_back([this] { plan(); });
    for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { serve(); });
  } catch (const std::system_error& error) {
    stop();
    throw DeviceError(std::string("cannot start threads that read class centres: ") + error.what());
  } catch (...) {
    stop();
    throw;
  }
}

PagedMemory::~PagedMemory() { stop(); }

void PagedMemory::stop() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  planner_.notify_all();
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  if (data_ != nullptr) ::munmap(data_, options_.bytes);
}

std::shared_ptr<PinnedPages> PagedMemory::read_ahead(std::vector<PageRange> ranges) {
  std::shared_ptr<PinnedPages> set(new PinnedPages(*this, std::move(ranges), false));
  {
    const std::lock_guard lock(mutex_);
    ahead_.push_back(set.get());
  }
  planner_.notify_one();
  return set;
}

std::unique_ptr<PinnedPages> PagedMemory::pin(std::vector<PageRange> ranges, PageUse use) {
  const TimePoint start = Clock::now();
  std::unique_ptr<PinnedPages> set(new PinnedPages(*this, std::move(ranges), true));
  Lock lock(mutex_);
  for (;;) {
    if (error_) std::rethrow_exception(error_);
    const Progress progress = pin_some(*set, limit_ + window_);
    if (progress == Progress::kDone) break;
    if (progress == Progress::kSome) continue;
    check(leaving_ + reading_ > 0, "paged memory: the pages of pin() exceed the window");
    awaited_ = kRoom;
    landed_.wait(lock);
  }
  wait_until_resident(lock, *set, use);
  counters_.waited_seconds += seconds_since(start);
  return set;
}

void PagedMemory::wait(PinnedPages& set) {
  const TimePoint start = Clock::now();
  Lock lock(mutex_);
  while (set.range_ < set.ranges_.size()) {
    if (error_) std::rethrow_exception(error_);
    if (out_of_room_) throw_too_small(set);
    awaited_ = kAllPinned;
    landed_.wait(lock);
  }
  wait_until_resident(lock, set, PageUse::kChange);
  counters_.waited_seconds += seconds_since(start);
}

/// REQUIRES: all pages are pinned.
void PagedMemory::wait_until_resident(Lock& lock, const PinnedPages& set, PageUse use) {
  for (const PageRange& range : set.ranges_) {
    for (std::int64_t p = range.first; p < range.first + range.count; ++p) {
      while (at(p).state != State::kResident) {
        if (error_) std::rethrow_exception(error_);
        awaited_ = p;
        landed_.wait(lock);
      }
      if (use == PageUse::kChange) at(p).dirty = true;
    }
  }
  awaited_ = kNothing;
}

void PagedMemory::write_back() {
  Lock lock(mutex_);
  for (std::int64_t p = 0; p < std::ssize(pages_); ++p) {
    if (at(p).dirty) begin_to_write(p);  // a page that is pinned or listed stays in memory
  }
  awaited_ = kRoom;
  landed_.wait(lock, [&] { return leaving_ == 0 || error_; });
  awaited_ = kNothing;
  if (error_) std::rethrow_exception(error_);
}

bool PagedMemory::holds(std::span<const PageRange> ranges) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(ranges, [&](const PageRange& range) {
    const auto pages = std::span(pages_).subspan(static_cast<std::size_t>(range.first),
                                                 static_cast<std::size_t>(range.count));
    return std::ranges::all_of(
        pages, [](const Page& page) { return page.pins > 0 && page.state == State::kResident; });
  });
}

PagingCounters PagedMemory::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void PagedMemory::throw_too_small(const PinnedPages& set) {
  std::int64_t needed = pinned_;
  for (std::size_t i = set.range_; i < set.ranges_.size(); ++i) {
    const PageRange& range = set.ranges_[i];
    for (std::int64_t p = range.first; p < range.first + range.count; ++p) {
      if (at(p).pins == at(p).window_pins) ++needed;
    }
  }
  const auto mib = [](std::int64_t pages) {
    constexpr std::int64_t kPagesOfMib = (std::int64_t{1} << 20) / kPageBytes;
    return std::to_string((pages + kPagesOfMib - 1) / kPagesOfMib);
  };
  throw InputError("centre_cache: the class centres of one step need " + mib(needed) +
                   " MiB on this worker, found " + mib(limit_) + "; set centre_cache to at least " +
                   mib(needed) + ", better three times as much");
}

void PagedMemory::release(PinnedPages& set) {
  {
    const std::lock_guard lock(mutex_);
    if (!set.in_window_) std::erase(ahead_, &set);
    std::vector<std::uint32_t> unpinned;
    for (std::size_t i = 0; i < set.ranges_.size() && i <= set.range_; ++i) {
      const PageRange& range = set.ranges_[i];
      const std::int64_t count = i < set.range_ ? range.count : set.page_;
      for (std::int64_t p = range.first; p < range.first + count; ++p) {
        Page& page = at(p);
        --page.pins;
        if (set.in_window_) {
          --page.window_pins;
        } else if (page.pins == page.window_pins) {
          --pinned_;
        }
        if (page.pins > 0) continue;
        if (!set.in_window_) page.again = page.listed;
        if (!page.listed) unpinned.push_back(static_cast<std::uint32_t>(p));
        page.listed = true;
      }
    }
    // Pages of pin() are used once, in passes over the whole table: they leave first.
    unpinned_.insert(set.in_window_ ? unpinned_.begin() : unpinned_.end(), unpinned.begin(),
                     unpinned.end());
    if (!error_) static_cast<void>(make_room(limit_ + 1, 1));
    out_of_room_ = false;  // plan() sets it again if there is still no room
  }
  planner_.notify_one();
}

/// Pins and requests the pages of the sets of read_ahead().
void PagedMemory::plan() {
  Lock lock(mutex_);
  try {
    plan_until_closed(lock);
  } catch (...) {  // no memory
    fail(std::current_exception());
  }
}

void PagedMemory::plan_until_closed(Lock& lock) {
  while (!closed_) {
    if (ahead_.empty() || error_) {
      planner_.wait(lock);
      continue;
    }
    const Progress progress = pin_some(*ahead_.front(), limit_);
    if (progress == Progress::kDone) {
      ahead_.pop_front();
      if (awaited_ == kAllPinned) landed_.notify_all();
    } else if (progress == Progress::kSome) {
      lock.unlock();  // lets other threads lock the mutex
      lock.lock();
    } else {
      out_of_room_ = leaving_ + reading_ == 0;
      if (out_of_room_) landed_.notify_all();
      planner_.wait(lock);
      out_of_room_ = false;
    }
  }
}

PagedMemory::Progress PagedMemory::pin_some(PinnedPages& set, std::int64_t limit) {
  for (std::int64_t i = 0; i < kPagesPerTurn; ++i) {
    while (set.range_ < set.ranges_.size() && set.page_ == set.ranges_[set.range_].count) {
      ++set.range_;
      set.page_ = 0;
    }
    if (set.range_ == set.ranges_.size()) return Progress::kDone;
    const std::int64_t page = set.ranges_[set.range_].first + set.page_;
    // Sets of read_ahead() pin at most limit_ pages. make_room() alone does not ensure this: pages
    // that pin() has brought into memory need no room.
    const bool is_new = !set.in_window_ && at(page).pins == at(page).window_pins;
    if (is_new && pinned_ >= limit_) return Progress::kNoRoom;
    if (at(page).state == State::kAbsent && !make_room(limit, set.left_)) return Progress::kNoRoom;
    take(page, set.in_window_);
    ++set.page_;
    --set.left_;
  }
  return Progress::kSome;
}

void PagedMemory::take(std::int64_t number, bool in_window) {
  Page& page = at(number);
  check(page.pins < std::numeric_limits<decltype(page.pins)>::max() &&
            page.window_pins < std::numeric_limits<decltype(page.window_pins)>::max(),
        "paged memory: too many pins of a page");
  if (in_window) {
    ++page.window_pins;
  } else if (page.pins == page.window_pins) {
    ++pinned_;
  }
  ++page.pins;
  ++counters_.used;
  if (page.state != State::kAbsent) {
    ++counters_.hits;
    return;
  }
  ++resident_;
  page.state = page.stored ? State::kReading : State::kResident;
  if (!page.stored) return;
  ++reading_;
  submit(false, number);
}

/// Returns whether there is room for a page: whether fewer than `limit` pages are in memory. Drops
/// unchanged pages to make room. Also begins to write changed pages, whose memory is free when they
/// have been written: enough for `wanted` more pages, but not too many at a time.
bool PagedMemory::make_room(std::int64_t limit, std::int64_t wanted) {
  std::int64_t first = 0, unchanged = 0;  // pages in a row are freed with one system call
  std::optional<std::int64_t> page;
  while (resident_ - unchanged >= limit &&
         leaving_ < std::min(kMostLeaving, resident_ - unchanged + wanted - limit) &&
         (page = least_recently_used())) {
    if (at(*page).dirty) {
      begin_to_write(*page);
    } else if (*page == first + unchanged) {
      ++unchanged;
    } else {
      drop(first, unchanged);
      first = *page;
      unchanged = 1;
    }
  }
  drop(first, unchanged);
  return resident_ < limit;
}

std::optional<std::int64_t> PagedMemory::least_recently_used() {
  for (std::size_t tries = 2 * unpinned_.size(); tries > 0 && !unpinned_.empty(); --tries) {
    const std::uint32_t number = unpinned_.front();
    unpinned_.pop_front();
    Page& page = at(number);
    page.listed = false;
    if (page.pins > 0) continue;
    if (page.state == State::kResident && !page.again) return number;
    page.listed = true;
    page.again = false;
    unpinned_.push_back(number);
  }
  return std::nullopt;
}

void PagedMemory::begin_to_write(std::int64_t number) {
  Page& page = at(number);
  page.dirty = false;
  page.state = State::kWriting;
  ++leaving_;
  submit(true, number);
}

/// Frees the memory of pages that are in the file or have zeros.
void PagedMemory::drop(std::int64_t first, std::int64_t count) {
  if (count == 0) return;
  ::madvise(data_ + static_cast<std::size_t>(first) * kPageBytes,
            static_cast<std::size_t>(count) * kPageBytes, MADV_DONTNEED);
  for (std::int64_t p = first; p < first + count; ++p) at(p).state = State::kAbsent;
  resident_ -= count;
}

/// Extends the newest request, or adds one.
void PagedMemory::submit(bool write, std::int64_t page) {
  if (!requests_.empty()) {
    Request& last = requests_.back();
    const bool follows = last.write == write && last.first + last.count == page;
    if (follows && last.count < kMostPagesOfRequest) {
      ++last.count;
      return;
    }
  }
  requests_.push_back({write, page, 1});
  work_.notify_one();
}

/// Performs requests.
void PagedMemory::serve() {
  Lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return closed_ || !requests_.empty(); });
    if (closed_) return;
    const Request request = requests_.front();
    requests_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      transfer(request);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error ? fail(std::move(error)) : finish(request);
  }
}

void PagedMemory::transfer(const Request& request) {
  const auto offset = static_cast<std::size_t>(request.first) * kPageBytes;
  const std::span<std::byte> bytes(data_ + offset,
                                   static_cast<std::size_t>(request.count) * kPageBytes);
  request.write ? file_->write(offset, bytes) : file_->read(offset, bytes);
}

void PagedMemory::finish(const Request& request) {
  const std::int64_t end = request.first + request.count;
  for (std::int64_t p = request.first; p < end; ++p) at(p).state = State::kResident;
  if (request.write) {
    counters_.written += request.count;
    leaving_ -= request.count;
    std::int64_t unused = request.first;  // pages from here to p were not pinned meanwhile
    for (std::int64_t p = request.first; p < end; ++p) {
      at(p).stored = true;
      if (at(p).pins == 0 && !at(p).listed) continue;
      drop(unused, p - unused);
      unused = p + 1;
    }
    drop(unused, end - unused);
  } else {
    counters_.read += request.count;
    reading_ -= request.count;
  }
  if (limit_ - resident_ >= kMostPagesOfRequest || leaving_ + reading_ == 0) planner_.notify_one();
  const bool awaited = request.first <= awaited_ && awaited_ < end;
  if (awaited || awaited_ == kRoom) landed_.notify_all();
}

void PagedMemory::fail(std::exception_ptr error) {
  if (!error_) error_ = std::move(error);
  landed_.notify_all();
}

}  // namespace pfc
