#include "data/records/writing/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"

namespace pfc {

namespace {

constexpr std::size_t kWriteBufferBytes = 1 << 20;

[[noreturn]] void fail_part_file(const std::filesystem::path& file, const char* doing) {
  const int error = errno;
  throw StorageError(file.string() + ": cannot " + doing + ": " + file_error_text(error));
}

/// Returns whether the open file still has this name.
bool is_at(const std::filesystem::path& path, const struct stat& open) {
  struct stat there {};
  return ::stat(path.c_str(), &there) == 0 && there.st_dev == open.st_dev &&
         there.st_ino == open.st_ino;
}

}  // namespace

PartFile::PartFile(std::filesystem::path path)
    : path_(std::move(path)), part_(path_.string() + ".part") {
  expect_regular_or_nothing(path_);
  buffer_.reserve(kWriteBufferBytes);
  open();
}

/// Locks the file, because two writers would overwrite each other's data.
void PartFile::open() {
  while (true) {
    fd_ = open_to_write(part_, O_RDWR | O_CREAT | O_NOFOLLOW);
    if (fd_ < 0) fail_part_file(part_, "create");
    // Some network file systems have no locks; writing there is still allowed.
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw StorageError(part_.string() +
                         ": another process writes this file; wait until it ends, or name another "
                         "folder");
    }
    struct stat status {};
    if (::fstat(fd_, &status) != 0) fail_part_file(part_, "inspect");
    offset_ = static_cast<std::uint64_t>(status.st_size);
    if (is_at(part_, status)) return;
    // Its writer has just renamed the file to its final name: create a new one.
  }
}

PartFile::~PartFile() {
  if (fd_ < 0) return;
  try {
    flush();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the next start rewrites it
  }
}

void PartFile::keep(std::uint64_t bytes) {
  flush();
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail_part_file(part_, "shorten");
  offset_ = bytes;
}

void PartFile::write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kWriteBufferBytes) flush();
  if (bytes.size() <= kWriteBufferBytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  } else {
    put(offset_, bytes);
  }
  offset_ += bytes.size();
}

void PartFile::flush() {
  if (buffer_.empty()) return;
  put(offset_ - buffer_.size(), buffer_);
  buffer_.clear();
}

void PartFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  flush();
  put(offset, bytes);
}

void PartFile::put(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;  // avoids an endless loop
    if (n <= 0) fail_part_file(part_, "write");
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void PartFile::sync() {
  flush();
  if (::fdatasync(fd_) != 0) fail_part_file(part_, "sync");
}

void PartFile::commit() {
  sync();
  if (::rename(part_.c_str(), path_.c_str()) != 0) fail_part_file(part_, "rename");
  fd_.reset();
}

}  // namespace pfc
