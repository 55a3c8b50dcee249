#include "common/files/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/error.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"

namespace pfc {

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(path_.string() + ".tmp") {
  expect_regular_or_nothing(path_);
  fd_ = open_to_write(temporary_, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  if (fd_ < 0) fail("cannot create");
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  fd_.reset();
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail(std::string_view doing) {
  const int error = errno;
  const std::string place = bytes_ > 0 ? " after " + std::to_string(bytes_) + " bytes" : "";
  throw StorageError(path_.string() + ": " + std::string(doing) + place + ": " +
                     file_error_text(error));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  sum_.update(bytes);
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("cannot write");
    }
    bytes_ += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

WrittenFile AtomicFile::commit() {
  // On a network file system, "disk full" may be reported only here.
  if (::fsync(fd_) != 0) fail("cannot sync");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot rename");
  fd_.reset();
  const auto folder = path_.parent_path();
  sync_folder(folder.empty() ? "." : folder);
  return {.bytes = bytes_, .sha256 = sum_.finish()};
}

WrittenFile write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  return file.commit();
}

void sync_folder(const std::filesystem::path& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd < 0 || ::fsync(fd) != 0) {
    throw StorageError(folder.string() + ": cannot sync the folder: " + file_error_text(errno));
  }
}

}  // namespace pfc
