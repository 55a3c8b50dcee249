// Opens paths from users. Only regular files are read and written, because a FIFO or a device at
// the path could block a program forever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "common/files/fd.h"

namespace pfc {

/// An open regular file. Opening never blocks. Throws InputError "PATH: cannot open: REASON",
/// "PATH: not a regular file but a FIFO", "PATH: cannot read: REASON", and for a Git LFS pointer.
/// Only fd() and read_at() are thread-safe.
class RegularFile {
 public:
  explicit RegularFile(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_; }                  ///< valid while this object lives
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }  ///< size when it was opened

  /// Reads from the current position, initially 0. Returns the number of bytes read, which is
  /// smaller than requested only at the end of the file.
  std::size_t read(std::span<std::byte> to);
  /// Reads from `offset` without moving the position of read(). Returns the number of bytes as
  /// read() does. Thread-safe. Throws InputError "PATH: offset N: cannot read: REASON".
  [[nodiscard]] std::size_t read_at(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  std::filesystem::path path_;
  Fd fd_;
  std::uint64_t bytes_ = 0;
};

/// Returns the first bytes of a file, at most `most`. Throws InputError as RegularFile does.
std::string read_text(const std::filesystem::path& path, std::size_t most);

/// Throws StorageError "PATH: not a regular file but a FIFO; ..." if the path to be written exists
/// and is not a regular file. Follows links. A missing path, or one that stat() cannot read, is
/// not an error here: opening it reports the reason.
void expect_regular_or_nothing(const std::filesystem::path& path);

/// Throws InputError if `output` is the same file as one of `inputs`, also under another name:
/// writing it would destroy what the program reads.
void expect_not_an_input(const std::filesystem::path& output,
                         std::span<const std::filesystem::path> inputs);

/// Opens a file for writing; creates it if `flags` has O_CREAT. Never blocks. If open() fails, the
/// result holds no descriptor, and errno is set. Throws StorageError as
/// expect_regular_or_nothing() does. O_NOFOLLOW also rejects links; temporary files need it,
/// because otherwise the target of a link could be overwritten.
Fd open_to_write(const std::filesystem::path& path, int flags);

/// Returns whether anything exists at `path`, including an unreadable file or a dangling link.
/// Throws InputError if that is unknown, for example if a parent folder may not be searched.
bool something_at(const std::filesystem::path& path);

}  // namespace pfc
