// Log files, to which lines are appended.
#pragma once

#include <filesystem>
#include <string_view>

#include "common/files/fd.h"

namespace pfc {

/// Appends to a file and keeps its existing content. Not thread-safe.
class AppendFile {
 public:
  /// Creates the file if it does not exist. Throws StorageError with the file and the reason, for
  /// example if it is not a regular file (regular_file.h).
  explicit AppendFile(std::filesystem::path path);

  /// Appends `line` and a newline with one system call, so that readers see only whole lines.
  /// Throws StorageError with the file and the reason.
  void write_line(std::string_view line);

 private:
  const std::filesystem::path path_;
  Fd fd_;
};

}  // namespace pfc
