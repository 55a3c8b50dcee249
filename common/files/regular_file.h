// Opens files that may be anything. A FIFO or a device in the place of a file would make a program
// wait for ever, so only regular files are read and written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace pfc {

/// An open regular file. Opening never waits. Throws InputError "PATH: cannot open: REASON", "PATH:
/// not a regular file but a FIFO", "PATH: cannot read: REASON", and for a Git LFS pointer. Belongs
/// to one thread, but for fd() and read_at().
class RegularFile {
 public:
  explicit RegularFile(std::filesystem::path path);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_; }  ///< open as long as this object lives
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }  ///< when it was opened

  /// Reads on, from the file's beginning. Returns how many bytes there were, which are fewer than
  /// asked for only at the end.
  std::size_t read(std::span<std::byte> to);
  /// Reads from `offset` on, and returns likewise; read() goes on where it was. Thread-safe. Throws
  /// InputError "PATH: offset N: cannot read: REASON".
  [[nodiscard]] std::size_t read_at(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
};

/// The beginning of a file, at most `most` bytes. Throws InputError as RegularFile does.
std::string read_text(const std::filesystem::path& path, std::size_t most);

/// Throws StorageError "PATH: not a regular file but a FIFO; ..." where something else than a
/// regular file is in the place of one that is to be written; a link counts as what it leads to.
/// Nothing there, or what cannot be looked at, is no error: opening the file says so.
void expect_regular_or_nothing(const std::filesystem::path& path);

/// Opens a file to be written, and makes it where there is none and `flags` has O_CREAT. Returns
/// the descriptor, which the caller closes, or -1 with errno, as open() does, but never waits.
/// Throws StorageError as expect_regular_or_nothing() does. With O_NOFOLLOW, a link is refused too:
/// temporary files need that, because nobody asked to write to the file that the link leads to.
int open_to_write(const std::filesystem::path& path, int flags);

/// Whether there is anything at `path`: also a file that cannot be read, or a link to nothing.
/// Throws InputError where that cannot be found out, for example because a folder may not be
/// searched.
bool something_at(const std::filesystem::path& path);

}  // namespace pfc
