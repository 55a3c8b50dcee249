// Who has joined, who has changed what, and who was refused: one line of JSON each.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "security/identity.h"

namespace pfc {

struct AuditEvent {
  std::string what;  ///< "register", "exchange_token", "stop", ...
  std::string peer;  ///< address and port of the other side
  Identity identity;
  std::string serial;         ///< of its certificate, or the id of its token
  std::string result = "ok";  ///< or why it was refused: "expired_token"
  std::string detail;         ///< for people
  bool refused = false;
};

/// FOLDER/audit.jsonl, whose mode becomes 0600, written by a thread of its own. At kMostBytes it
/// becomes audit.jsonl.1, which replaces the last one. Refusals, which strangers can make, are
/// limited: of more than kMostRefusals a second only the number is written. Thread-safe, never
/// blocks, and drops what cannot be written.
class AuditLog {
 public:
  static constexpr std::uintmax_t kMostBytes = std::uintmax_t{16} << 20;
  static constexpr int kMostRefusals = 20;

  /// Throws StorageError where the file cannot be opened, or is a link, a pipe or another user's.
  explicit AuditLog(std::filesystem::path folder, std::uintmax_t most_bytes = kMostBytes);
  /// Writes what is left.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  void add(const AuditEvent& event);
  /// Lines that were not written: too many refusals, or a disk that is full or too slow.
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  void run();
  void write(const std::string& line);
  /// Returns what is wrong with the file; empty: nothing is.
  std::string open();
  /// Whether this refusal is one of the few of this second.
  bool may_write_refusal();

  const std::filesystem::path path_;
  const std::uintmax_t most_bytes_;
  int fd_ = -1;  ///< the thread's
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;  ///< guarded by mutex_
  std::uint64_t dropped_ = 0;      ///< guarded by mutex_
  std::uint64_t left_out_ = 0;     ///< guarded by mutex_; refusals since the last line
  std::int64_t second_ = 0;        ///< guarded by mutex_
  int refusals_ = 0;               ///< guarded by mutex_; in this second
  bool ending_ = false;            ///< guarded by mutex_
  std::thread thread_;
};

}  // namespace pfc
