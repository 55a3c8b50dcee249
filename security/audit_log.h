// Audit log: one JSON line per join, change and refusal.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "common/files/fd.h"
#include "security/identity.h"

namespace pfc {

struct AuditEvent {
  std::string what;  ///< "register", "exchange_token", "stop", ...
  std::string peer;  ///< address and port of the peer
  Identity identity;
  std::string serial;         ///< serial number of the certificate, or id of the token
  std::string result = "ok";  ///< "ok", or the code of the refusal, such as "expired_token"
  std::string detail;         ///< free text for the reader of the log
  bool refused = false;
};

/// Writes FOLDER/audit.jsonl (mode 0600) from its own thread. A file of most_bytes is renamed to
/// audit.jsonl.1, which replaces the previous one. Unauthenticated callers can cause refusals, so
/// at most kMostRefusals per second are written and the rest are only counted. Thread-safe. add()
/// never blocks; lines that cannot be written are dropped.
class AuditLog {
 public:
  static constexpr std::uintmax_t kMostBytes = std::uintmax_t{16} << 20;
  static constexpr int kMostRefusals = 20;

  /// Throws StorageError if the file cannot be opened, or is a link, a pipe or another user's.
  explicit AuditLog(std::filesystem::path folder, std::uintmax_t most_bytes = kMostBytes);
  /// Writes the queued lines.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  void add(const AuditEvent& event);
  /// Returns the number of lines that were not written: too many refusals, or a full or slow disk.
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  void run();
  void write(const std::string& line);
  /// Opens or creates the file. Returns the problem; empty on success.
  std::string open();
  /// Counts a refusal. Returns false if this second already has kMostRefusals.
  bool may_write_refusal();

  const std::filesystem::path path_;
  const std::uintmax_t most_bytes_;
  Fd fd_;  ///< used only by thread_ after construction
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;  ///< guarded by mutex_
  std::uint64_t dropped_ = 0;      ///< guarded by mutex_
  std::uint64_t left_out_ = 0;     ///< guarded by mutex_; dropped since the last written line
  std::int64_t second_ = 0;        ///< guarded by mutex_; the second that refusals_ counts
  int refusals_ = 0;               ///< guarded by mutex_; refusals in second_
  bool ending_ = false;            ///< guarded by mutex_
  std::thread thread_;
};

}  // namespace pfc
