#include "worker/head/paging/kept_pages.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "common/clock.h"
#include "common/config/strict_json.h"
#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/file_error.h"
#include "common/files/folder.h"

namespace pfc {
namespace {

constexpr std::chrono::milliseconds kLockPoll{100};
constexpr JsonLimits kListLimits{.bytes = 16u << 20, .depth = 4};

/// Returns false if another process keeps a lock that excludes this one.
bool lock_pages(int fd, int kind, std::chrono::milliseconds patience) {
  const TimePoint deadline = Clock::now() + patience;
  while (::flock(fd, kind | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return true;  // no locks here; OutputLock has warned
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kLockPoll);
  }
  return true;
}

Fd open_pages(const KeptName& name) {
  if (!something_at(name.pages())) throw InputError(name.pages().string() + ": missing");
  Fd fd = open_to_write(name.pages(), O_RDWR | O_NOFOLLOW);
  if (fd < 0) throw StorageError(name.pages().string() + ": " + file_error_text(errno));
  return fd;
}

Fd create_pages(const KeptName& name) {
  as_storage_error([&] { std::filesystem::create_directories(name.folder); });
  Fd fd = open_to_write(name.pages(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
  if (fd < 0) throw StorageError(name.pages().string() + ": " + file_error_text(errno));
  check(lock_pages(fd, LOCK_EX, {}), "kept pages: a new file is locked");
  return fd;
}

/// Content of NAME.json.
struct CheckpointList {
  std::uint64_t bytes = 0;
  std::vector<std::string> checkpoints;

  /// Returns the checkpoints from this one on.
  [[nodiscard]] std::vector<std::string> from(const KeptName& name,
                                              const std::string& first) const {
    const auto found = std::ranges::find(checkpoints, first);
    if (found != checkpoints.end()) return {found, checkpoints.end()};
    throw InputError(name.list().string() + ": does not list checkpoint " + first +
                     ": its log was deleted, or the job has continued from an earlier checkpoint");
  }
};

CheckpointList read_list(const KeptName& name) {
  const std::string path = name.list().string();
  if (!something_at(name.list())) throw InputError(path + ": missing");
  const std::string text = read_text(name.list(), kListLimits.bytes);
  CheckpointList found;
  try {
    const nlohmann::json list = parse_strict_json(text, path, kListLimits);
    found.bytes = list.at("bytes").get<std::uint64_t>();
    found.checkpoints = list.at("checkpoints").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    throw InputError(path + ": expected \"bytes\" and \"checkpoints\", as pfc writes them");
  }
  const auto is_path = [](const std::string& each) { return each.find('/') != each.npos; };
  if (found.bytes % kPageBytes != 0 || std::ranges::any_of(found.checkpoints, is_path)) {
    throw InputError(path + ": expected a number of bytes of whole pages, and checkpoints' names");
  }
  return found;
}

/// Throws InputError if the pages or a log of these checkpoints is missing.
std::vector<std::string> expect_files(const KeptName& name, const std::string& first) {
  const CheckpointList list = read_list(name);
  std::vector<std::string> chain = list.from(name, first);
  for (const std::string& checkpoint : chain) {
    if (something_at(name.log(checkpoint))) continue;
    throw InputError(name.log(checkpoint).string() + ": missing");
  }
  const RegularFile pages(name.pages());
  if (pages.bytes() == list.bytes) return chain;
  throw InputError(name.pages().string() + ": " + std::to_string(pages.bytes()) +
                   " bytes, expected " + std::to_string(list.bytes));
}

}  // namespace

KeptPages::KeptPages(KeptName name, Fd fd, std::uint64_t bytes)
    : name_(std::move(name)), bytes_(bytes), base_(std::move(fd), name_.pages().string()) {}

std::unique_ptr<KeptPages> KeptPages::create(KeptName name, std::uint64_t bytes) {
  Fd fd = create_pages(name);
  std::unique_ptr<KeptPages> file(new KeptPages(std::move(name), std::move(fd), bytes));
  file->unused_ = true;
  file->base_.reserve(bytes);
  file->save_list();
  return file;
}

/// The next job deletes what cannot be deleted now.
KeptPages::~KeptPages() {
  if (!unused_) return;
  std::error_code error;
  std::filesystem::remove(name_.pages(), error);
  std::filesystem::remove(name_.list(), error);
  std::filesystem::remove(name_.folder, error);  // succeeds for the last worker
}

std::unique_ptr<KeptPages> KeptPages::take_over(KeptName name, const std::string& checkpoint,
                                                std::uint64_t bytes,
                                                std::chrono::milliseconds patience) {
  Fd fd = open_pages(name);
  if (!lock_pages(fd, LOCK_EX, patience)) {
    throw CommError(name.pages().string() +
                    " is still used by an earlier worker of this job, or read by another program; "
                    "end that process (fuser shows it)");
  }
  const CheckpointList list = read_list(name);
  if (list.bytes != bytes) {
    throw InputError(name.list().string() + ": \"bytes\" is " + std::to_string(list.bytes) +
                     ", expected " + std::to_string(bytes));
  }
  std::unique_ptr<KeptPages> file(new KeptPages(std::move(name), std::move(fd), bytes));
  file->checkpoints_ = list.checkpoints;
  file->roll_back(checkpoint);
  return file;
}

std::vector<std::string> KeptPages::checkpoints_of(const KeptName& name) {
  return read_list(name).checkpoints;
}

/// The newest log is applied first, so that an older log has the last word. The list is shortened
/// when the pages are durable: until then, all of this can be repeated.
void KeptPages::roll_back(const std::string& checkpoint) {
  std::vector<std::string> chain = expect_files(name_, checkpoint);
  std::ranges::reverse(chain);
  const auto read_logs = [&](const auto& f) {
    for (const std::string& each : chain) {
      read_undo_log(name_.log(each), each == chain.front(), bytes_ / kPageBytes, f);
    }
  };
  read_logs([](const PageImage&, std::uint64_t) {});  // throws before anything is changed
  read_logs([&](const PageImage& image, std::uint64_t) {
    base_.write(std::uint64_t{image.page} * kPageBytes, {image.bytes, kPageBytes});
  });
  base_.sync();
  const auto kept = std::ranges::find(checkpoints_, checkpoint) + 1;
  const std::vector<std::string> lost(kept, checkpoints_.end());
  checkpoints_.erase(kept, checkpoints_.end());
  save_list();
  as_storage_error([&] {
    for (const std::string& each : lost) std::filesystem::remove(name_.log(each));
  });
  begin_log();
}

void KeptPages::add_checkpoint(const std::string& checkpoint) {
  expect_whole();
  broken_ = true;
  expect_in_place();
  base_.sync();
  // Older logs may have been deleted with their checkpoints.
  const auto is_there = [&](const std::string& each) { return something_at(name_.log(each)); };
  checkpoints_.erase(checkpoints_.begin(), std::ranges::find_if(checkpoints_, is_there));
  checkpoints_.push_back(checkpoint);
  begin_log();
  save_list();
  broken_ = unused_ = false;
}

void KeptPages::expect_in_place() const {
  struct stat mine {
  }, there{};
  const bool found = ::fstat(base_.fd(), &mine) == 0 && ::stat(name_.pages().c_str(), &there) == 0;
  if (found && mine.st_ino == there.st_ino && mine.st_dev == there.st_dev) return;
  throw StorageError(name_.pages().string() + ": was removed or replaced while the job ran");
}

/// Pages that are written after a failure would be in a log that is not listed.
void KeptPages::expect_whole() const {
  if (!broken_) return;
  throw StorageError(name_.pages().string() +
                     ": not changed any more, because a checkpoint failed");
}

/// Begins an empty log of the newest checkpoint.
void KeptPages::begin_log() {
  log_ = std::make_unique<UndoLog>(name_.log(checkpoints_.back()));
  logged_.assign(bytes_ / kPageBytes, false);
}

void KeptPages::save_list() const {
  const nlohmann::json list = {{"bytes", bytes_}, {"checkpoints", checkpoints_}};
  write_file_atomically(name_.list(), list.dump(2) + "\n");  // also makes new logs' names durable
}

void KeptPages::write(std::uint64_t offset, std::span<const std::byte> from) {
  expect_whole();
  if (log_) log_old_content(offset, from.size() / kPageBytes);
  base_.write(offset, from);
}

void KeptPages::log_old_content(std::uint64_t offset, std::size_t count) {
  const std::size_t first = offset / kPageBytes;
  std::vector<std::uint32_t> pages;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t p = first; p < first + count; ++p) {
      if (!logged_[p]) pages.push_back(static_cast<std::uint32_t>(p));
    }
  }
  if (pages.empty()) return;
  const PageBuffer old(count);
  base_.read(offset, {old.page(0), count * kPageBytes});
  std::vector<PageImage> images;
  images.reserve(pages.size());
  for (const std::uint32_t p : pages) images.push_back({.page = p, .bytes = old.page(p - first)});
  log_->add(images);
  const std::lock_guard lock(mutex_);
  for (const std::uint32_t p : pages) logged_[p] = true;
}

PagesOfCheckpoint::PagesOfCheckpoint(const KeptName& name, const std::string& checkpoint,
                                     std::chrono::milliseconds patience)
    : base_(name.pages()) {
  if (!lock_pages(base_.fd(), LOCK_SH, patience)) {
    throw CommError(name.pages().string() +
                    ": a job is changing these class centres; wait until "
                    "the job in " +
                    (name.folder.parent_path() / ".lock").string() + " has ended");
  }
  const std::vector<std::string> chain = expect_files(name, checkpoint);
  for (const std::string& each : chain) {
    const auto log = static_cast<std::uint32_t>(logs_.size());
    logs_.emplace_back(name.log(each));
    const bool newest = each == chain.back();
    read_undo_log(name.log(each), newest, base_.bytes() / kPageBytes,
                  [&](const PageImage& image, std::uint64_t offset) {
                    old_.push_back({.page = image.page, .log = log, .offset = offset});
                  });
  }
  std::ranges::stable_sort(old_, {}, &Old::page);  // the oldest log comes first
  const auto repeated = std::ranges::unique(old_, {}, &Old::page);
  old_.erase(repeated.begin(), repeated.end());
}

void PagesOfCheckpoint::expect_there(const KeptName& name, const std::string& checkpoint) {
  static_cast<void>(expect_files(name, checkpoint));
}

void PagesOfCheckpoint::read(std::uint64_t offset, std::span<std::byte> to) const {
  if (offset > base_.bytes() || to.size() > base_.bytes() - offset) {
    throw InputError(base_.path().string() + ": " + std::to_string(base_.bytes()) +
                     " bytes, expected " + std::to_string(to.size()) + " at offset " +
                     std::to_string(offset));
  }
  auto next = std::ranges::lower_bound(old_, offset / kPageBytes, {}, &Old::page);
  while (!to.empty()) {
    // The bytes up to the next page of a log are in the base.
    const std::uint64_t page =
        next == old_.end() ? offset + to.size() : std::uint64_t{next->page} * kPageBytes;
    const bool in_base = offset < page;
    const std::uint64_t end = in_base ? page : page + kPageBytes;
    const std::span<std::byte> part = to.first(std::min<std::uint64_t>(to.size(), end - offset));
    const RegularFile& file = in_base ? base_ : logs_[next->log];
    const std::uint64_t from = in_base ? offset : next->offset + (offset - page);
    if (file.read_at(from, part) < part.size()) {
      throw InputError(file.path().string() + ": offset " + std::to_string(from) +
                       ": the file ends there");
    }
    if (!in_base) ++next;
    to = to.subspan(part.size());
    offset += part.size();
  }
}

}  // namespace pfc
