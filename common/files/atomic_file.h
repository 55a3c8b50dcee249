// Files that are there whole or not at all, also after a power cut: written beside, synced,
// renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "common/files/sha256.h"

namespace pfc {

/// What writing a file gave: for a manifest.
struct WrittenFile {
  std::uint64_t bytes = 0;
  std::string sha256;  ///< lower-case hex of the whole file
};

/// One file being written to PATH.tmp. commit() makes it appear at PATH, replacing what was there;
/// without commit() nothing changes and PATH.tmp is removed. One writer a path at a time. Failures
/// (full disk, no permission, a FIFO or folder in the place of one of the two) throw StorageError
/// that names the file and the reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  /// Syncs the file, renames it, syncs its folder.
  WrittenFile commit();

 private:
  [[noreturn]] void fail(std::string_view doing);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
  Sha256 sum_;
};

WrittenFile write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Makes renames and removals in the folder durable. Throws StorageError.
void sync_folder(const std::filesystem::path& folder);

}  // namespace pfc
