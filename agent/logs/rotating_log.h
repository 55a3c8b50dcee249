// Log of one worker, in parts: a file is renamed when it is full.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "common/files/fd.h"

namespace pfc {

struct LogLimits {
  std::uint64_t part_bytes = std::uint64_t{10} << 20;  ///< maximum size of a part
  int parts = 5;                                       ///< per worker, including the newest
  int jobs = 20;                                       ///< number of jobs whose logs are kept
};

/// Returns the log's files by part number. The newest is `path`; older parts are PATH.1, PATH.2
/// and so on, in order of age, oldest first. Empty if there is no log.
std::map<std::int64_t, std::filesystem::path> parts_of_log(const std::filesystem::path& path);

/// Not thread-safe.
class RotatingLog {
 public:
  /// Opens or creates the log. Throws StorageError that names the file and the reason.
  RotatingLog(std::filesystem::path path, const LogLimits& limits);
  RotatingLog(const RotatingLog&) = delete;
  RotatingLog& operator=(const RotatingLog&) = delete;

  /// Appends text. If the part would become too large, starts a new part first and removes those
  /// beyond LogLimits::parts. Throws StorageError as the constructor does.
  void write(std::string_view text);

 private:
  void open();
  void begin_part();

  const std::filesystem::path path_;
  const LogLimits limits_;
  Fd fd_;
  std::uint64_t size_ = 0;
};

/// A piece of a log, and the position after it.
struct LogPiece {
  std::string text;         ///< empty: nothing new yet
  std::int64_t part = 0;    ///< position after the text
  std::int64_t offset = 0;  ///< position after the text
  bool skipped = false;     ///< the requested part has been removed
};

/// Value of `part` in read_log(): `offset` is a number of lines before the end of the log.
inline constexpr std::int64_t kLogLines = -2;

/// Reads up to `most` bytes from this position. Part 0 is the oldest. With part -1, `offset` is a
/// distance from the end, and reaches back at most into the second newest part. Throws InputError
/// if there is no such log, and StorageError if it cannot be read.
LogPiece read_log(const std::filesystem::path& path, std::int64_t part, std::int64_t offset,
                  std::size_t most);

}  // namespace pfc
