// Writes files atomically, also across power loss: write a temporary file, sync it, rename it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "common/files/fd.h"
#include "common/files/sha256.h"

namespace pfc {

/// Size and checksum of a written file, for a manifest.
struct WrittenFile {
  std::uint64_t bytes = 0;
  std::string sha256;  ///< lower-case hex of the whole file
};

/// Writes to PATH.tmp. commit() moves it to PATH and replaces any existing file. Without commit(),
/// PATH is unchanged and PATH.tmp is removed. Only one writer per path at a time. Failures (full
/// disk, no permission, a FIFO or folder at either path) throw StorageError with the file and the
/// reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  /// Syncs the file, renames it and syncs its folder.
  WrittenFile commit();

 private:
  [[noreturn]] void fail(std::string_view doing);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  Fd fd_;
  std::uint64_t bytes_ = 0;
  Sha256 sum_;
};

WrittenFile write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Makes renames and removals in the folder durable. Throws StorageError.
void sync_folder(const std::filesystem::path& folder);

}  // namespace pfc
