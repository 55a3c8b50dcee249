#include "worker/data/pending_file.h"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "common/error.h"

namespace pfc {

namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

}  // namespace

PendingFile::PendingFile(std::filesystem::path path)
    : path_(std::move(path)), partial_(path_.string() + ".partial") {
  if (path_.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(path_.parent_path(), error);
    if (error) {
      throw StorageError(path_.parent_path().string() +
                         ": cannot make this folder: " + error.message());
    }
  }
  file_.reset(std::fopen(partial_.c_str(), "wbe"));
  if (!file_) fail("cannot create");
  std::setvbuf(file_.get(), nullptr, _IOFBF, kBufferBytes);
}

PendingFile::~PendingFile() {
  if (!file_) return;
  file_.reset();
  std::error_code ignored;  // the failure that brought us here is the one to report
  std::filesystem::remove(partial_, ignored);
}

void PendingFile::write(std::span<const std::byte> bytes) {
  check(file_ != nullptr, "PendingFile: write after commit");
  if (bytes.empty()) return;
  errno = 0;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail("cannot write");
  offset_ += bytes.size();
}

void PendingFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void PendingFile::commit() {
  check(file_ != nullptr, "PendingFile: committed twice");
  errno = 0;
  // Synced before the rename: after a power cut the name never shows a file without its contents.
  if (std::fflush(file_.get()) != 0 || ::fsync(::fileno(file_.get())) != 0) fail("cannot write");
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) fail("cannot rename into place");
  file_.reset();
}

void PendingFile::fail(const char* what) const {
  const std::error_code reason(errno != 0 ? errno : EIO, std::generic_category());
  throw StorageError(path_.string() + ": " + what + ": " + reason.message());
}

}  // namespace pfc
