// The file behind a PagedMemory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "common/files/fd.h"

namespace pfc {

/// Alignment of memory and file offsets, in bytes, and the unit that is read and written.
inline constexpr std::size_t kPageBytes = 4096;

/// read() and write() are thread-safe. They transfer all bytes, or throw a StorageError that names
/// the file and the reason. Memory, offset and size are multiples of kPageBytes.
class PageFile {
 public:
  virtual ~PageFile() = default;
  virtual void read(std::uint64_t offset, std::span<std::byte> to) = 0;
  virtual void write(std::uint64_t offset, std::span<const std::byte> from) = 0;
};

/// An open file. Reads and writes bypass the page cache (O_DIRECT) if the file system supports it.
class OpenPages : public PageFile {
 public:
  /// `name`: for messages.
  OpenPages(Fd fd, std::string name);
  void read(std::uint64_t offset, std::span<std::byte> to) override;
  void write(std::uint64_t offset, std::span<const std::byte> from) override;
  /// Gives the file this size, and reserves the space at once if the file system can do that.
  /// Throws StorageError, for example if the disk has less space.
  void reserve(std::uint64_t bytes);
  /// Blocks until all earlier writes are durable. Throws StorageError.
  void sync();
  [[nodiscard]] int fd() const { return fd_; }

 private:
  [[noreturn]] void fail(const char* what, std::size_t bytes, std::uint64_t offset,
                         const std::string& reason) const;

  const Fd fd_;
  const std::string name_;
};

/// Creates a temporary file of this size in `folder`, and the folder if it is missing. The file has
/// no name, so the disk space is free again when the process ends, in any way. Throws as
/// OpenPages::reserve() does.
std::unique_ptr<PageFile> make_page_file(const std::filesystem::path& folder, std::uint64_t bytes);

}  // namespace pfc
