// File with the state that another process needs to take over from this coordinator.
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

#include "common/files/fd.h"
#include "coordinator/journal/journal_file.h"

namespace pfc {

/// Stores values by key in a file that only this user can read, and holds its lock for the lifetime
/// of this object. Its own thread writes; values put during a write become one record. If a write
/// fails (full disk), all values stay in memory, and the whole file is rewritten every second until
/// that succeeds. The file is also rewritten when it is several times as large as its values. The
/// file's modification time shows, to a few seconds, when the coordinator was last alive. All
/// functions are called by one thread.
class Journal {
 public:
  struct Options {
    std::filesystem::path file;
    /// Called with a line when writing begins to fail or hang, and when it works again. Runs on
    /// the journal's thread, or in settle().
    std::function<void(const std::string& line)> tell;
    std::uint64_t smallest_rewrite = 1U << 20;  ///< bytes; smaller files are not rewritten
    std::chrono::milliseconds retry{1'000};
    std::chrono::milliseconds touch{2'000};
  };

  /// Writes the file with these contents, replacing the open and locked one in `found`, if any.
  /// Failures are reported and retried.
  Journal(Options options, JournalContents contents, Fd found = {});
  /// Writes pending values. Keeps the file, unless remove() was called.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Delays writing during its lifetime, so that all changes become one record.
  class Change {
   public:
    explicit Change(Journal& journal);
    ~Change();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    Journal& journal_;
  };

  void put(const std::string& key, std::string value);  ///< no effect if unchanged
  void erase(const std::string& key);
  /// Erases the keys that begin with `prefix` and are not in `keys`.
  void keep_only(const std::string& prefix, const std::set<std::string>& keys);
  /// Waits up to `limit` until all changes are in the file, and returns whether they are. Does not
  /// wait if the last write failed, or if a write that exceeded an earlier `limit` is still
  /// running. Data in the file survive a crash of the process, but perhaps not of the machine.
  bool settle(std::chrono::milliseconds limit);
  /// Called when there is nothing left to take over. Stops writing and deletes the file, at the
  /// latest when this object is destroyed. Does not block.
  void remove();

  [[nodiscard]] std::uint64_t failures();  ///< failed attempts to write
  [[nodiscard]] std::uint64_t file_bytes();

 private:
  using Lock = std::unique_lock<std::mutex>;

  void write_all();
  /// Makes one attempt to write, and releases `lock` meanwhile.
  void write_once(Lock& lock);
  void append(const std::string& record);
  void rewrite(const std::string& bytes);
  [[nodiscard]] std::string whole_file() const;
  [[nodiscard]] proto::JournalRecord changes() const;
  [[nodiscard]] bool must_rewrite() const;
  /// Returns whether the file or its folder was removed, so that further writes would be lost.
  [[nodiscard]] bool was_removed() const;
  void touch() const;
  void note_failure(const std::string& why);
  void note_success();
  void note_hang(std::chrono::milliseconds limit);
  void note_answer();

  const Options options_;
  const proto::JournalIdentity identity_;
  Fd file_;                  // locked; used by the writer
  std::uint64_t bytes_ = 0;  // guarded by mutex_: size of the file
  std::mutex mutex_;
  std::condition_variable changed_;
  JournalValues values_;             // guarded by mutex_
  std::uint64_t value_bytes_ = 0;    // guarded by mutex_
  std::set<std::string> unwritten_;  // guarded by mutex_: keys
  std::uint64_t put_ = 0;            // guarded by mutex_: number of changes
  std::uint64_t written_ = 0;        // guarded by mutex_: number of changes written
  bool broken_ = true;               // guarded by mutex_: the file must be rewritten
  bool failing_ = false;             // guarded by mutex_
  bool hanging_ = false;             // guarded by mutex_: a write has timed out in settle()
  std::uint64_t failures_ = 0;       // guarded by mutex_
  bool held_ = false;                // guarded by mutex_: a Change exists
  bool stopping_ = false;            // guarded by mutex_
  bool over_ = false;                // guarded by mutex_: delete the file
  std::thread thread_;               // last: uses all members above
};

}  // namespace pfc
