#include "coordinator/journal/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/error.h"
#include "common/error_text.h"
#include "common/files/atomic_file.h"
#include "common/files/file_error.h"
#include "common/files/write_all.h"
#include "security/secret_file.h"

namespace pfc {
namespace {

constexpr int kGrowth = 4;  // the file may be this many times as large as its values

[[noreturn]] void fail(const std::filesystem::path& file, const char* doing) {
  const int error = errno;
  throw StorageError(file.string() + ": cannot be " + doing + ": " + file_error_text(error));
}

}  // namespace

Journal::Journal(Options options, JournalContents contents, Fd found)
    : options_(std::move(options)),
      identity_(std::move(contents.identity)),
      file_(std::move(found)),
      values_(std::move(contents.values)) {
  for (const auto& [key, value] : values_) value_bytes_ += key.size() + value.size();
  {
    Lock lock(mutex_);
    write_once(lock);
  }
  thread_ = std::thread([this] { write_all(); });
}

Journal::~Journal() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Journal::Change::Change(Journal& journal) : journal_(journal) {
  const std::lock_guard lock(journal_.mutex_);
  journal_.held_ = true;
}

Journal::Change::~Change() {
  {
    const std::lock_guard lock(journal_.mutex_);
    journal_.held_ = false;
  }
  journal_.changed_.notify_all();
}

void Journal::put(const std::string& key, std::string value) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = values_.try_emplace(key);
  if (!is_new && place->second == value) return;
  value_bytes_ += value.size() + (is_new ? key.size() : 0) - place->second.size();
  place->second = std::move(value);
  unwritten_.insert(key);
  put_ += 1;
  changed_.notify_all();
}

void Journal::erase(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto place = values_.find(key);
  if (place == values_.end()) return;
  value_bytes_ -= key.size() + place->second.size();
  values_.erase(place);
  unwritten_.insert(key);
  put_ += 1;
  changed_.notify_all();
}

void Journal::keep_only(const std::string& prefix, const std::set<std::string>& keys) {
  std::set<std::string> gone;
  {
    const std::lock_guard lock(mutex_);
    for (auto each = values_.lower_bound(prefix);
         each != values_.end() && each->first.starts_with(prefix); ++each) {
      if (!keys.contains(each->first)) gone.insert(each->first);
    }
  }
  for (const std::string& key : gone) erase(key);
}

bool Journal::settle(std::chrono::milliseconds limit) {
  Lock lock(mutex_);
  const std::uint64_t wanted = put_;
  const auto answered = [&] { return written_ >= wanted || failing_ || stopping_; };
  if (!hanging_ && !changed_.wait_for(lock, limit, answered)) note_hang(limit);
  return written_ >= wanted;
}

void Journal::remove() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = over_ = true;
  }
  changed_.notify_all();
}

std::uint64_t Journal::failures() {
  const std::lock_guard lock(mutex_);
  return failures_;
}

std::uint64_t Journal::file_bytes() {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void Journal::write_all() {
  Lock lock(mutex_);
  while (true) {
    const auto work = [this] { return stopping_ || (!held_ && !failing_ && !unwritten_.empty()); };
    changed_.wait_for(lock, failing_ ? options_.retry : options_.touch, work);
    const bool last = stopping_;
    if (over_) break;
    if (!last && held_) continue;
    // The disk may hang, and must not block the callers.
    lock.unlock();
    const bool removed = was_removed();
    lock.lock();
    if (!last && held_) continue;
    broken_ = broken_ || removed;
    if (!unwritten_.empty() || broken_) write_once(lock);
    if (!last) {  // even after a failed write: a full disk does not mean a dead coordinator
      lock.unlock();
      touch();
      lock.lock();
    }
    note_answer();
    if (over_) break;
    if (last) return;
  }
  lock.unlock();
  ::unlink(options_.file.c_str());
}

bool Journal::must_rewrite() const {
  return broken_ || (bytes_ > options_.smallest_rewrite && bytes_ > kGrowth * value_bytes_);
}

void Journal::write_once(Lock& lock) {
  const bool anew = must_rewrite();
  const std::string bytes = anew ? whole_file() : encode_record(changes());
  const std::uint64_t covered = put_;
  const std::set<std::string> taken = std::exchange(unwritten_, {});
  lock.unlock();
  std::string problem;
  try {
    anew ? rewrite(bytes) : append(bytes);
  } catch (const std::exception& error) {
    problem = text_of(error);
  }
  lock.lock();
  broken_ = !problem.empty();
  if (problem.empty()) {
    bytes_ = anew ? bytes.size() : bytes_ + bytes.size();
    written_ = covered;
    note_success();
  } else {
    unwritten_.insert(taken.begin(), taken.end());
    note_failure(problem);
  }
  changed_.notify_all();
  lock.unlock();
  if (problem.empty()) {
    ::fdatasync(file_);  // an error here shows at the next rewrite
  } else {
    touch();  // the coordinator is alive although the write failed
  }
  lock.lock();
}

void Journal::append(const std::string& record) {
  if (!pfc::write_all(file_, record)) fail(options_.file, "written");
}

/// Locks the file before it gets its name, so that no coordinator takes it for an abandoned one.
void Journal::rewrite(const std::string& bytes) {
  const std::filesystem::path temporary = options_.file.string() + ".tmp";
  make_own_folder(options_.file.parent_path());  // the folder may have been removed
  ::unlink(temporary.c_str());
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
  Fd fresh(::open(temporary.c_str(), kFlags, 0600));
  if (fresh < 0) fail(options_.file, "made");
  if (::flock(fresh, LOCK_EX | LOCK_NB) != 0) fail(options_.file, "locked");
  if (!pfc::write_all(fresh, bytes)) {
    const int error = errno;
    ::unlink(temporary.c_str());
    errno = error;
    fail(options_.file, "written");
  }
  if (::fdatasync(fresh) != 0) fail(options_.file, "synced");
  if (::rename(temporary.c_str(), options_.file.c_str()) != 0) fail(options_.file, "renamed");
  file_ = std::move(fresh);
  sync_folder(options_.file.parent_path());
}

std::string Journal::whole_file() const {
  proto::JournalRecord record;
  for (const auto& [key, value] : values_) {
    proto::JournalEntry& entry = *record.add_entries();
    entry.set_key(key);
    entry.set_value(value);
  }
  return encode_header(identity_) + encode_record(record);
}

proto::JournalRecord Journal::changes() const {
  proto::JournalRecord record;
  for (const std::string& key : unwritten_) {
    proto::JournalEntry& entry = *record.add_entries();
    entry.set_key(key);
    const auto value = values_.find(key);
    entry.set_erased(value == values_.end());
    if (value != values_.end()) entry.set_value(value->second);
  }
  return record;
}

bool Journal::was_removed() const {
  struct stat info {};
  if (file_ < 0) return false;
  if (::fstat(file_, &info) == 0 && info.st_nlink == 0) return true;
  return ::stat(options_.file.c_str(), &info) != 0 && errno == ENOENT;  // the folder was removed
}

void Journal::touch() const { ::futimens(file_, nullptr); }

void Journal::note_failure(const std::string& why) {
  failures_ += 1;
  if (std::exchange(failing_, true)) return;
  options_.tell("the journal: " + why +
                "; the job continues, but if this coordinator were killed now, no new coordinator "
                "could take over the job. Writing is retried every second");
}

void Journal::note_success() {
  if (std::exchange(failing_, false)) options_.tell("the journal can be written again");
}

void Journal::note_hang(std::chrono::milliseconds limit) {
  hanging_ = true;
  options_.tell("the journal: the disk of " + options_.file.string() + " has not answered for " +
                std::to_string(limit.count()) +
                " ms; the job continues without waiting for it, but if this coordinator were "
                "killed now, no new coordinator could take over the job");
}

void Journal::note_answer() {
  if (std::exchange(hanging_, false)) options_.tell("the disk of the journal answers again");
}

}  // namespace pfc
