// The file behind a PagedMemory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

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

/// Creates a temporary file of this size in `folder`, and the folder if it is missing. The file has
/// no name, so the disk space is free again when the process ends, in any way. Reserves the space
/// at once if the file system can do that. Reads and writes bypass the page cache (O_DIRECT) if the
/// file system supports it. Throws StorageError, for example if the disk has less space.
std::unique_ptr<PageFile> make_page_file(const std::filesystem::path& folder, std::uint64_t bytes);

}  // namespace pfc
