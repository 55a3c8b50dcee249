#include "security/secret_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kLockLimit{5'000};
constexpr milliseconds kLockPause{2};
constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

[[noreturn]] void fail(const fs::path& path, const std::string& doing,
                       const std::string& option = "--state-dir") {
  throw StorageError(path.string() + ": cannot be " + doing + ": " + file_error_text(errno) +
                     "; choose another folder with " + option);
}

/// Does not follow links. Returns zeros if the path does not exist.
struct stat stat_of(const fs::path& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return {};
  return info;
}

std::string mode_text(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof(text), "%04o", mode & 07777U);
  return text;
}

void write_secret_text(int fd, std::string_view text, const fs::path& path,
                       const std::string& option) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(path, "written", option);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (fsync(fd) != 0) fail(path, "written", option);
}

}  // namespace

void make_own_folder(const fs::path& folder, const std::string& option) {
  std::error_code ignored;  // mkdir reports the error
  if (folder.has_parent_path() && !fs::exists(folder.parent_path(), ignored)) {
    make_own_folder(folder.parent_path(), option);
  }
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) fail(folder, "created", option);
  const struct stat info = stat_of(folder);
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    throw StorageError(folder.string() + ": expected a folder of this user; choose another with " +
                       option);
  }
}

void make_private_folder(const fs::path& folder) {
  make_own_folder(folder);
  const mode_t mode = stat_of(folder).st_mode;
  if ((mode & kOthers) != 0) {
    throw StorageError(
        folder.string() + ": found mode " + mode_text(mode) +
        ", which lets other users enter a folder with keys; expected 0700 (chmod 700)");
  }
}

std::string read_secret(const fs::path& path, std::size_t most) {
  RegularFile file(path);
  struct stat info {};
  if (fstat(file.fd(), &info) != 0 || info.st_uid != geteuid()) {
    throw InputError(path.string() + ": expected a file of this user");
  }
  if ((info.st_mode & kOthers) != 0) {
    throw InputError(path.string() + ": found mode " + mode_text(info.st_mode) +
                     ", which lets other users access a secret; expected 0600 (chmod 600)");
  }
  if (file.bytes() > most) {
    throw InputError(path.string() + ": found " + std::to_string(file.bytes()) +
                     " bytes, expected at most " + std::to_string(most));
  }
  std::string text(file.bytes(), '\0');
  text.resize(file.read(std::as_writable_bytes(std::span(text))));
  return text;
}

void write_secret(const fs::path& path, std::string_view text, const std::string& option) {
  const fs::path temporary = path.string() + "." + std::to_string(getpid()) + ".tmp";
  unlink(temporary.c_str());
  const Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (fd < 0) fail(path, "created", option);
  try {
    write_secret_text(fd, text, path, option);
    if (rename(temporary.c_str(), path.c_str()) != 0) fail(path, "renamed", option);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
}

FolderLock::FolderLock(const fs::path& folder) {
  const fs::path path = folder / "lock";
  fd_ = Fd(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (fd_ < 0) fail(path, "created");
  for (const TimePoint deadline = Clock::now() + kLockLimit; flock(fd_, LOCK_EX | LOCK_NB) != 0;) {
    if (errno != EINTR && errno != EWOULDBLOCK) fail(path, "locked");
    if (errno == EWOULDBLOCK && Clock::now() >= deadline) {
      throw StorageError(path.string() +
                         ": another program of this user has held the lock for more than 5 s; try "
                         "again when it has ended");
    }
    std::this_thread::sleep_for(kLockPause);
  }
}

}  // namespace pfc
