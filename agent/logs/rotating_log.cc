#include "agent/logs/rotating_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>
#include <tuple>
#include <utility>

#include "common/error.h"
#include "common/files/file_error.h"
#include "common/files/mapped_file.h"
#include "common/files/regular_file.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const char* what) {
  throw StorageError(path.string() + ": cannot be " + what + ": " + file_error_text(errno));
}

/// Returns the N of PATH.N; 0 if the name has another form.
std::int64_t number_of(const std::string& name, const std::string& log) {
  if (!name.starts_with(log + ".")) return 0;
  std::int64_t number = 0;
  const char* const begin = name.data() + log.size() + 1;
  const char* const end = name.data() + name.size();
  const auto [last, error] = std::from_chars(begin, end, number);
  return error == std::errc() && last == end ? std::max<std::int64_t>(number, 0) : 0;
}

fs::path part_path(const fs::path& path, std::int64_t part) {
  return path.string() + "." + std::to_string(part);
}

/// Returns the position `bytes` before the end, within the two newest parts.
std::pair<std::int64_t, std::int64_t> place_before_end(
    const std::map<std::int64_t, fs::path>& parts, std::int64_t bytes) {
  const auto size_of = [](const fs::path& file) {
    std::error_code gone;
    const auto size = fs::file_size(file, gone);
    return gone ? std::int64_t{0} : static_cast<std::int64_t>(size);
  };
  auto part = std::prev(parts.end());
  const std::int64_t newest = size_of(part->second);
  if (newest >= bytes || part == parts.begin()) {
    return {part->first, std::max<std::int64_t>(newest - bytes, 0)};
  }
  --part;
  return {part->first, std::max<std::int64_t>(size_of(part->second) - (bytes - newest), 0)};
}

/// Returns the part and offset at which the last `lines` lines begin. An unfinished last line
/// counts as a line.
std::pair<std::int64_t, std::int64_t> place_of_last_lines(
    const std::map<std::int64_t, fs::path>& parts, std::int64_t lines) {
  bool is_end = true;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const MappedFile file(part->second);
    std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    if (is_end && text.ends_with('\n')) text.remove_suffix(1);
    is_end = is_end && file.bytes().empty();
    for (auto end = text.rfind('\n'); end != std::string_view::npos; end = text.rfind('\n')) {
      if (--lines <= 0) return {part->first, static_cast<std::int64_t>(end) + 1};
      text = text.substr(0, end);
    }
  }
  return {parts.begin()->first, 0};
}

}  // namespace

std::map<std::int64_t, fs::path> parts_of_log(const fs::path& path) {
  std::map<std::int64_t, fs::path> parts;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path.parent_path(), ignored)) {
    const auto number = number_of(entry.path().filename().string(), path.filename().string());
    if (number > 0) parts[number] = entry.path();
  }
  if (fs::exists(path, ignored)) parts[parts.empty() ? 1 : parts.rbegin()->first + 1] = path;
  return parts;
}

RotatingLog::RotatingLog(fs::path path, const LogLimits& limits)
    : path_(std::move(path)), limits_(limits) {
  open();
}

void RotatingLog::open() {
  fd_ = open_to_write(path_, O_WRONLY | O_CREAT | O_APPEND);
  if (fd_ < 0) fail(path_, "opened");
  struct stat info {};
  size_ = ::fstat(fd_, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

void RotatingLog::write(std::string_view text) {
  if (fd_ < 0) open();  // the last attempt to open it failed
  if (size_ > 0 && size_ + text.size() > limits_.part_bytes) begin_part();
  while (!text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(path_, "written");
    size_ += static_cast<std::uint64_t>(written);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void RotatingLog::begin_part() {
  fd_.reset();
  const auto parts = parts_of_log(path_);
  const std::int64_t newest = parts.empty() ? 1 : parts.rbegin()->first;
  if (::rename(path_.c_str(), part_path(path_, newest).c_str()) != 0) fail(path_, "renamed");
  for (const auto& [number, file] : parts) {
    if (number > newest + 1 - limits_.parts) break;
    ::unlink(part_path(path_, number).c_str());
  }
  open();
}

LogPiece read_log(const fs::path& path, std::int64_t part, std::int64_t offset, std::size_t most) {
  const auto parts = parts_of_log(path);
  if (parts.empty()) throw InputError(path.string() + ": this log does not exist");
  if (part == kLogLines) {
    std::tie(part, offset) = place_of_last_lines(parts, offset);
  } else if (part < 0) {
    std::tie(part, offset) = place_before_end(parts, std::max<std::int64_t>(offset, 0));
  }
  auto place = parts.lower_bound(part);
  LogPiece piece{.text = {}, .part = part, .offset = std::max<std::int64_t>(offset, 0)};
  if (place == parts.end()) return piece;  // the requested part does not exist yet
  if (place->first != part) {
    piece.skipped = part > 0;
    piece.part = place->first;
    piece.offset = 0;
  }
  const Fd fd(::open(place->second.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd < 0) fail(place->second, "opened");
  piece.text.resize(most);
  const ssize_t got = ::pread(fd, piece.text.data(), most, piece.offset);
  if (got < 0) fail(place->second, "read");
  piece.text.resize(static_cast<std::size_t>(got));
  piece.offset += got;
  const bool is_older = std::next(place) != parts.end();
  if (got > 0 || !is_older) return piece;
  return read_log(path, std::next(place)->first, 0, most);
}

}  // namespace pfc
