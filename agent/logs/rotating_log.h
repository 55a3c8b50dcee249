// The log of one worker: a file that is renamed when it is full, and the parts that it leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace pfc {

struct LogLimits {
  std::uint64_t part_bytes = std::uint64_t{10} << 20;  ///< of one file
  int parts = 5;                                       ///< of one worker, the newest with them
  int jobs = 20;                                       ///< whose logs are kept
};

/// The number of each part of a log, and its file. The newest one is `path` itself; those before it
/// are PATH.1, PATH.2 and so on, of which the last is the newest. Empty where there is no log.
std::map<std::int64_t, std::filesystem::path> parts_of_log(const std::filesystem::path& path);

/// Not thread-safe.
class RotatingLog {
 public:
  /// Goes on with a log that is there. Throws StorageError that names the file and the reason.
  RotatingLog(std::filesystem::path path, const LogLimits& limits);
  ~RotatingLog();
  RotatingLog(const RotatingLog&) = delete;
  RotatingLog& operator=(const RotatingLog&) = delete;

  /// Adds text. Begins another part first where this one would become too large, and removes the
  /// oldest one then. Throws StorageError likewise.
  void write(std::string_view text);

 private:
  void open();
  void begin_part();

  const std::filesystem::path path_;
  const LogLimits limits_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

/// A place in a log, and a piece of it.
struct LogPiece {
  std::string text;         ///< empty: there is nothing more yet
  std::int64_t part = 0;    ///< of what follows
  std::int64_t offset = 0;  ///< likewise
  bool skipped = false;     ///< the part that was asked for has been removed
};

/// Value of `part` in read_log(): `offset` is a number of lines, counted from the end of the log.
inline constexpr std::int64_t kLogLines = -2;

/// Reads at most `most` bytes from this place on; part 0 is the oldest that there is, and part -1
/// is the end, of which `offset` is the distance; at most two parts are gone back. Throws
/// InputError where there is no such log, and StorageError where it cannot be read.
LogPiece read_log(const std::filesystem::path& path, std::int64_t part, std::int64_t offset,
                  std::size_t most);

}  // namespace pfc
