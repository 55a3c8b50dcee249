// A file that is written over several starts of a program, and appears when it is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace pfc {

/// Writes PATH.part, which stays where the program ends before commit(), so that another start goes
/// on. Only one process and object has it at a time. Belongs to one thread. Throws StorageError
/// that names the file, also where another one writes it.
class PartFile {
 public:
  /// Opens what an earlier start has left, or a new file.
  explicit PartFile(std::filesystem::path path);
  ~PartFile();  ///< what write() was given is written, as far as it can be
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::filesystem::path& part() const { return part_; }
  /// Where the next write() goes: at first the end of what was left.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  /// Forgets all but the first bytes. REQUIRES: bytes <= offset().
  void keep(std::uint64_t bytes);
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Writes over bytes that have been written. REQUIRES: they end before offset().
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void flush();
  void sync();  ///< on the disk, also after a power failure
  /// PATH takes the place of PATH.part. Call sync_folder() (atomic_file.h) after the last one.
  void commit();

 private:
  void open();
  void put(std::uint64_t offset, std::span<const std::byte> bytes);

  const std::filesystem::path path_, part_;
  int fd_ = -1;
  std::uint64_t offset_ = 0;
  std::vector<std::byte> buffer_;  ///< the last bytes before offset_
};

}  // namespace pfc
