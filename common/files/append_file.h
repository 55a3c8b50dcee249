// A log file: lines are added at its end.
#pragma once

#include <filesystem>
#include <string_view>

namespace pfc {

/// Keeps what is in the file already. Not thread-safe.
class AppendFile {
 public:
  /// Makes the file where there is none. Throws StorageError that names the file and the reason,
  /// for example that it is no regular file (regular_file.h).
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Adds `line` and a line end with one system call, so that readers see whole lines only. Throws
  /// StorageError that names the file and the reason.
  void write_line(std::string_view line);

 private:
  const std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace pfc
