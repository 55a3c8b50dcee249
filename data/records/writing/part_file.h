// A file that one run of a program can begin and a later run can finish, and that appears only when
// it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "common/files/fd.h"

namespace pfc {

/// Writes PATH.part. If the program ends before commit(), that file remains, so that the next run
/// can continue it. Only one process, and in it one object, can have the file open. Used by one
/// thread. Throws StorageError that names the file, also if another process is writing it.
class PartFile {
 public:
  /// Opens the file left by an earlier run, or a new file.
  explicit PartFile(std::filesystem::path path);
  ~PartFile();  ///< flushes data given to write(), if possible
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::filesystem::path& part() const { return part_; }
  /// Returns the offset of the next write(): initially the end of the existing file.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  /// Truncates to `bytes`. REQUIRES: bytes <= offset().
  void keep(std::uint64_t bytes);
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Overwrites bytes that have been written. REQUIRES: the range ends before offset().
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void flush();
  void sync();  ///< makes the data durable
  /// Renames PATH.part to PATH. Call sync_folder() (atomic_file.h) after the last commit().
  void commit();

 private:
  void open();
  void put(std::uint64_t offset, std::span<const std::byte> bytes);

  const std::filesystem::path path_, part_;
  Fd fd_;
  std::uint64_t offset_ = 0;
  std::vector<std::byte> buffer_;  ///< unwritten data before offset_
};

}  // namespace pfc
