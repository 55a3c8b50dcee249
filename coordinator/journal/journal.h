// The file in which a coordinator keeps what another process needs to go on in its place.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "coordinator/journal/journal_file.h"

namespace pfc {

/// An open file, and the lock on it, that no two coordinators have at a time.
class LockedFile {
 public:
  LockedFile() = default;
  explicit LockedFile(int fd) : fd_(fd) {}  ///< takes a locked file over
  ~LockedFile();
  LockedFile(LockedFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  LockedFile& operator=(LockedFile&& other) noexcept;
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  [[nodiscard]] int fd() const { return fd_; }  ///< -1: none

 private:
  int fd_ = -1;
};

/// Values by key, kept in FILE, for this user alone, which is locked as long as this object lives.
/// A thread of its own writes: what was put while it wrote becomes one record. Where that fails
/// (a full disk) all values stay in memory, and the whole file is written anew every second until
/// that works. The file is written anew, too, when it has grown to several times its values. Its
/// time of change tells when the coordinator lived last, to a few seconds. All functions are for
/// one thread.
class Journal {
 public:
  struct Options {
    std::filesystem::path file;
    /// One line when writing begins to fail, or to hang, and one when it works again. On the
    /// journal's thread, and in settle().
    std::function<void(const std::string& line)> tell;
    std::uint64_t smallest_rewrite = 1U << 20;  ///< in bytes: a file that is rewritten
    std::chrono::milliseconds retry{1'000};
    std::chrono::milliseconds touch{2'000};
  };

  /// Writes the file with these contents, in the place of the one that `found` has open, if one was
  /// found. What fails is told, and tried again.
  Journal(Options options, JournalContents contents, LockedFile found = {});
  /// Writes what was put, and keeps the file, unless remove() was called.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// While it lives nothing is written, so that what is put meanwhile becomes one record.
  class Change {
   public:
    explicit Change(Journal& journal);
    ~Change();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    Journal& journal_;
  };

  void put(const std::string& key, std::string value);  ///< nothing where it has this value
  void erase(const std::string& key);
  /// Erases each key that begins with `prefix` and is not among these.
  void keep_only(const std::string& prefix, const std::set<std::string>& keys);
  /// Waits until everything that was put is in the file, at most `limit`, and not at all where the
  /// last attempt to write has failed, or has not ended since an earlier call has waited in vain.
  /// Returns whether it is. A file that is not on this machine's disk yet survives the end of the
  /// process, not that of the machine.
  bool settle(std::chrono::milliseconds limit);
  /// There is nothing to go on with any more: nothing is written from now on, and the file goes at
  /// the latest when this object does. Waits for nothing.
  void remove();

  [[nodiscard]] std::uint64_t failures();  ///< attempts to write that have failed
  [[nodiscard]] std::uint64_t file_bytes();

 private:
  using Lock = std::unique_lock<std::mutex>;

  void write_all();
  /// One attempt; `lock` is released meanwhile.
  void write_once(Lock& lock);
  void append(const std::string& record);
  void rewrite(const std::string& bytes);
  [[nodiscard]] std::string whole_file() const;
  [[nodiscard]] proto::JournalRecord changes() const;
  [[nodiscard]] bool must_rewrite() const;
  /// Returns whether the file or its folder was removed. Then further writes are lost.
  [[nodiscard]] bool was_removed() const;
  void touch() const;
  void note_failure(const std::string& why);
  void note_success();
  void note_hang(std::chrono::milliseconds limit);
  void note_answer();

  const Options options_;
  const proto::JournalIdentity identity_;
  LockedFile file_;          // the writer's
  std::uint64_t bytes_ = 0;  // guarded by mutex_: of the file
  std::mutex mutex_;
  std::condition_variable changed_;
  JournalValues values_;             // guarded by mutex_
  std::uint64_t value_bytes_ = 0;    // guarded by mutex_
  std::set<std::string> unwritten_;  // guarded by mutex_: keys
  std::uint64_t put_ = 0;            // guarded by mutex_: changes
  std::uint64_t written_ = 0;        // guarded by mutex_: of them
  bool broken_ = true;               // guarded by mutex_: the file must be written anew
  bool failing_ = false;             // guarded by mutex_
  bool hanging_ = false;             // guarded by mutex_: the disk has not answered for so long
  std::uint64_t failures_ = 0;       // guarded by mutex_
  bool held_ = false;                // guarded by mutex_: a Change lives
  bool stopping_ = false;            // guarded by mutex_
  bool over_ = false;                // guarded by mutex_: the file goes
  std::thread thread_;               // last: it uses everything above
};

}  // namespace pfc
