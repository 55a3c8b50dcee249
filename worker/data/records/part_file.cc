#include "worker/data/records/part_file.h"

#include <fcntl.h>
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

constexpr std::size_t kPiece = 1 << 20;

[[noreturn]] void fail(const std::filesystem::path& file, const char* doing) {
  const int error = errno;
  throw StorageError(file.string() + ": cannot " + doing + ": " + file_error_text(error));
}

}  // namespace

PartFile::PartFile(std::filesystem::path path)
    : path_(std::move(path)), part_(path_.string() + ".part") {
  expect_regular_or_nothing(path_);
  fd_ = open_to_write(part_, O_RDWR | O_CREAT);
  struct stat status {};
  if (fd_ < 0 || ::fstat(fd_, &status) != 0) fail(part_, "create");
  offset_ = static_cast<std::uint64_t>(status.st_size);
  buffer_.reserve(kPiece);
}

PartFile::~PartFile() {
  if (fd_ < 0) return;
  try {
    flush();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): another start writes it again
  }
  ::close(fd_);
}

void PartFile::keep(std::uint64_t bytes) {
  flush();
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail(part_, "shorten");
  offset_ = bytes;
}

void PartFile::write(std::span<const std::byte> bytes) {
  offset_ += bytes.size();
  if (buffer_.size() + bytes.size() <= kPiece) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return;
  }
  offset_ -= bytes.size();
  flush();
  offset_ += bytes.size();
  if (bytes.size() < kPiece) {
    buffer_.assign(bytes.begin(), bytes.end());
  } else {
    put(offset_ - bytes.size(), bytes);
  }
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
    if (n < 0) fail(part_, "write");
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void PartFile::sync() {
  flush();
  if (::fdatasync(fd_) != 0) fail(part_, "sync");
}

void PartFile::commit() {
  sync();
  if (::rename(part_.c_str(), path_.c_str()) != 0) fail(part_, "rename");
  ::close(std::exchange(fd_, -1));
}

}  // namespace pfc
