#include "worker/head/paging/page_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/byte_size.h"
#include "common/error.h"
#include "common/files/file_error.h"
#include "common/random_id.h"

namespace pfc {
namespace {

Fd create_unnamed(const std::filesystem::path& folder) {
  as_storage_error([&] { std::filesystem::create_directories(folder); });
  const std::filesystem::path path = folder / (".centres-" + random_id() + ".tmp");
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd < 0) throw StorageError(path.string() + ": " + file_error_text(errno));
  if (::unlink(path.c_str()) != 0) {
    throw StorageError(path.string() + ": cannot remove its name: " + file_error_text(errno));
  }
  return fd;
}

}  // namespace

OpenPages::OpenPages(Fd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {
  // If this fails, the kernel also keeps pages in its cache. It frees them when memory is needed.
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags >= 0) static_cast<void>(::fcntl(fd_, F_SETFL, flags | O_DIRECT));
}

void OpenPages::read(std::uint64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t done = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("read", to.size(), offset, file_error_text(errno));
    if (done == 0) fail("read", to.size(), offset, "the file ends there");
    to = to.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

void OpenPages::write(std::uint64_t offset, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t done = ::pwrite(fd_, from.data(), from.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("write", from.size(), offset, file_error_text(errno));
    if (done == 0) fail("write", from.size(), offset, "the device accepts no more bytes");
    from = from.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

void OpenPages::reserve(std::uint64_t bytes) {
  const auto size = static_cast<off_t>(bytes);
  int failed = ::fallocate(fd_, 0, 0, size);
  while (failed != 0 && errno == EINTR) failed = ::fallocate(fd_, 0, 0, size);
  if (failed == 0) return;
  if (errno == EOPNOTSUPP && ::ftruncate(fd_, size) == 0) return;
  throw StorageError(
      name_ + ": cannot reserve " + byte_size_text(bytes) +
      " for the class centres of a worker (centre_storage disk): " + file_error_text(errno));
}

void OpenPages::sync() {
  if (::fdatasync(fd_) != 0) throw StorageError(name_ + ": cannot sync: " + file_error_text(errno));
}

void OpenPages::fail(const char* what, std::size_t bytes, std::uint64_t offset,
                     const std::string& reason) const {
  throw StorageError(name_ + ": cannot " + what + " " + std::to_string(bytes) +
                     " bytes at offset " + std::to_string(offset) + ": " + reason);
}

std::unique_ptr<PageFile> make_page_file(const std::filesystem::path& folder, std::uint64_t bytes) {
  auto file = std::make_unique<OpenPages>(create_unnamed(folder),
                                          folder.string() + ": temporary file of class centres");
  file->reserve(bytes);
  return file;
}

}  // namespace pfc
