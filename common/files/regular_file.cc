#include "common/files/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/error.h"

namespace pfc {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* doing, int error) {
  throw InputError(path.string() + ": cannot " + doing + ": " +
                   std::generic_category().message(error));
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a link";
  return "a device";
}

/// Returns the error message, or an empty string for a regular file.
std::string irregularity_of(const std::filesystem::path& path, mode_t mode) {
  return S_ISREG(mode) ? "" : path.string() + ": not a regular file but " + kind_of(mode);
}

void refuse_to_read_unless_regular(const std::filesystem::path& path, mode_t mode) {
  if (const std::string wrong = irregularity_of(path, mode); !wrong.empty())
    throw InputError(wrong);
}

/// Without git-lfs, a git checkout contains a pointer of about 130 bytes in place of a large file.
bool is_lfs_pointer(int fd, off_t bytes) {
  constexpr std::string_view kBegin = "version https://git-lfs.github.com/spec/";
  constexpr off_t kLongest = 1024;
  if (bytes > kLongest) return false;
  std::array<char, kBegin.size()> found{};
  return ::pread(fd, found.data(), found.size(), 0) == std::ssize(found) &&
         std::ranges::equal(found, kBegin);
}

void refuse_to_write_unless_regular(const std::filesystem::path& path, mode_t mode) {
  const std::string wrong = irregularity_of(path, mode);
  if (!wrong.empty()) {
    throw StorageError(wrong + "; move it away, because a file of this name will be written");
  }
}

}  // namespace

RegularFile::RegularFile(std::filesystem::path path) : path_(std::move(path)) {
  // stat() comes first because opening some devices has side effects. O_NONBLOCK covers a FIFO
  // that replaces the file after stat(); it has no effect on regular files.
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) fail(path_, "open", errno);
  refuse_to_read_unless_regular(path_, status.st_mode);
  fd_ = Fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd_ < 0 || ::fstat(fd_, &status) != 0) fail(path_, "open", errno);
  refuse_to_read_unless_regular(path_, status.st_mode);
  if (is_lfs_pointer(fd_, status.st_size)) {
    throw InputError(path_.string() +
                     ": is a Git LFS pointer, not the file itself; run \"git lfs pull\" there");
  }
  bytes_ = static_cast<std::uint64_t>(status.st_size);
}

std::size_t RegularFile::read(std::span<std::byte> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t n = ::read(fd_, to.data() + done, to.size() - done);
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path_, "read", errno);
    done += static_cast<std::size_t>(n);
  }
  return done;
}

std::size_t RegularFile::read_at(std::uint64_t offset, std::span<std::byte> to) const {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t n =
        ::pread(fd_, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      throw InputError(path_.string() + ": offset " + std::to_string(offset) +
                       ": cannot read: " + std::generic_category().message(errno));
    }
    done += static_cast<std::size_t>(n);
  }
  return done;
}

std::string read_text(const std::filesystem::path& path, std::size_t most) {
  RegularFile file(path);
  const bool known = file.bytes() > 0;  // files in /proc have content, but a size of 0
  std::string text(known ? std::min<std::uint64_t>(most, file.bytes()) : most, '\0');
  text.resize(file.read(std::as_writable_bytes(std::span(text))));
  return text;
}

void expect_regular_or_nothing(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) refuse_to_write_unless_regular(path, status.st_mode);
}

void expect_not_an_input(const std::filesystem::path& output,
                         std::span<const std::filesystem::path> inputs) {
  for (const std::filesystem::path& input : inputs) {
    std::error_code error;
    if (!std::filesystem::equivalent(output, input, error)) continue;
    throw InputError(output.string() + ": the output is the input file " + input.string() +
                     "; name another file");
  }
}

Fd open_to_write(const std::filesystem::path& path, int flags) {
  // stat() first and O_NONBLOCK for the reasons given in the constructor.
  struct stat status {};
  const auto look = (flags & O_NOFOLLOW) != 0 ? ::lstat : ::stat;
  if (look(path.c_str(), &status) == 0) refuse_to_write_unless_regular(path, status.st_mode);
  Fd fd(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0644));
  if (fd >= 0 && ::fstat(fd, &status) == 0) {
    refuse_to_write_unless_regular(path, status.st_mode);
  }
  return fd;
}

bool something_at(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) fail(path, "open", errno);
  return false;
}

}  // namespace pfc
