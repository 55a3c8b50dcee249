#include "worker/report/event_tail.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "common/config/strict_json.h"
#include "common/error.h"
#include "common/files/fd.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"
#include "common/files/write_all.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kFirstLook = 1 << 16;  // bytes read first; then four times as many
constexpr std::uint64_t kPiece = 1 << 20;      // bytes

/// An open file, with errors that name it.
class NamedFile {
 public:
  NamedFile(const fs::path& path, Fd fd) : path_(path), fd_(std::move(fd)) {}

  [[nodiscard]] std::uint64_t bytes() const {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) fail("read");
    return static_cast<std::uint64_t>(info.st_size);
  }
  [[nodiscard]] std::string read(std::uint64_t begin, std::uint64_t end) const {
    std::string bytes(end - begin, '\0');
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count =
          ::pread(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(begin + done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fail("read");
      done += static_cast<std::size_t>(count);
    }
    return bytes;
  }
  /// Replaces everything from `begin` on by `text`.
  void replace_end(std::uint64_t begin, std::string_view text) const {
    if (::ftruncate(fd_, static_cast<off_t>(begin)) != 0) fail("write");
    if (::lseek(fd_, static_cast<off_t>(begin), SEEK_SET) < 0 || !write_all(fd_, text))
      fail("write");
    if (::fsync(fd_) != 0) fail("write");
  }

 private:
  [[noreturn]] void fail(const char* doing) const {
    const int error = errno;
    throw StorageError(path_.string() + ": cannot " + doing + ": " + file_error_text(error));
  }

  const fs::path path_;
  const Fd fd_;
};

/// Meaning of a line when the job resumes after `images` images.
enum class Line {
  kOver,      ///< event of images that training will repeat
  kStays,     ///< event that stays, but may have been written late
  kBoundary,  ///< event that stays, together with everything before it
  kNone,      ///< not an event
};

Line kind_of(std::string_view text, std::int64_t images) {
  nlohmann::json object;
  try {
    object = parse_strict_json(std::string(text), "event");
  } catch (const InputError&) {
    return Line::kNone;
  }
  if (!object.is_object()) return Line::kNone;
  const auto seen = object.find("images_seen");
  if (seen == object.end()) return Line::kStays;
  if (!seen->is_number_integer()) return Line::kNone;
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const bool too_many = seen->is_number_unsigned() && seen->get<std::uint64_t>() > kMost;
  if (too_many || seen->get<std::int64_t>() > images) return Line::kOver;
  return object.value("kind", nlohmann::json()) == "checkpoint" ? Line::kStays : Line::kBoundary;
}

/// The end of the file: everything after the last boundary, or the whole file if there is none.
struct Tail {
  std::uint64_t begin = 0;
  std::string text;
};

/// Returns the size of `text` up to its last boundary, inclusive. REQUIRES: `text` starts with a
/// whole line.
std::size_t after_boundary(std::string_view text, std::int64_t images) {
  std::size_t end = text.rfind('\n');  // ignores an unfinished line
  while (end != std::string_view::npos) {
    const std::size_t last = end == 0 ? std::string_view::npos : text.rfind('\n', end - 1);
    const std::size_t begin = last == std::string_view::npos ? 0 : last + 1;
    if (kind_of(text.substr(begin, end - begin), images) == Line::kBoundary) return end + 1;
    end = last;
  }
  return 0;
}

Tail tail_of(const NamedFile& file, std::int64_t images) {
  const std::uint64_t bytes = file.bytes();
  for (std::uint64_t look = kFirstLook;; look *= 4) {
    Tail tail;
    tail.begin = bytes > look ? bytes - look : 0;
    tail.text = file.read(tail.begin, bytes);
    const std::size_t line = tail.begin == 0 ? 0 : tail.text.find('\n') + 1;  // npos + 1 is 0
    const std::size_t found =
        tail.begin > 0 && line == 0
            ? 0
            : after_boundary(std::string_view(tail.text).substr(line), images);
    if (found == 0 && tail.begin > 0) continue;
    tail.begin += line + found;
    tail.text.erase(0, line + found);
    return tail;
  }
}

/// What to do with a tail.
struct Cut {
  std::optional<std::size_t> begin;  ///< offset of the first line to drop; empty if all stay
  std::string kept;                  ///< lines after `begin` that are kept
  std::size_t first_bad = 0;         ///< offset of the first line that is not an event
  std::int64_t bad = 0;              ///< number of such lines
};

Cut cut_of(std::string_view tail, std::int64_t images) {
  Cut cut;
  for (std::size_t begin = 0; begin < tail.size();) {
    const std::size_t end = tail.find('\n', begin);
    const bool is_whole = end != std::string_view::npos;
    const std::string_view line = tail.substr(begin, is_whole ? end - begin : end);
    const Line kind = kind_of(line, images);
    const bool stays = kind == Line::kStays || kind == Line::kBoundary;
    if (kind == Line::kNone && is_whole && cut.bad++ == 0) cut.first_bad = begin;
    if (!cut.begin && !(stays && is_whole)) cut.begin = begin;
    if (cut.begin && stays) cut.kept.append(line) += '\n';
    begin = is_whole ? end + 1 : tail.size();
  }
  return cut;
}

/// Warns about lines that are not events. Counts lines only then, because counting is slow.
void warn(const fs::path& metrics, const NamedFile& file, std::uint64_t first, std::int64_t count) {
  std::int64_t line = 1;
  for (std::uint64_t begin = 0; begin < first; begin += kPiece) {
    line += std::ranges::count(file.read(begin, std::min(begin + kPiece, first)), '\n');
  }
  spdlog::warn("{}: line {} is not an event with a whole number as images_seen; {}",
               metrics.string(), line,
               count == 1 ? "it is dropped" : fmt::format("it and {} more are dropped", count - 1));
}

}  // namespace

void drop_events_after(const fs::path& metrics, std::int64_t images) {
  expect_regular_or_nothing(metrics);
  Fd fd(::open(metrics.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (fd < 0) {
    const int error = errno;
    if (error == ENOENT) return;
    throw StorageError(metrics.string() + ": cannot read: " + file_error_text(error));
  }
  const NamedFile file(metrics, std::move(fd));
  const Tail tail = tail_of(file, images);
  const Cut cut = cut_of(tail.text, images);
  if (cut.bad > 0) warn(metrics, file, tail.begin + cut.first_bad, cut.bad);
  if (cut.begin) file.replace_end(tail.begin + *cut.begin, cut.kept);
}

}  // namespace pfc
