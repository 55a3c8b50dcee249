#include "worker/tensorboard/event_folder.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"
#include "common/machine/host_name.h"
#include "tensorboard/compat/proto/event.pb.h"
#include "worker/tensorboard/record_frame.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = "events.out.tfevents.";
constexpr std::string_view kEnd = ".pfc";

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return {};
  return number;
}

/// A file written by pfc, recognized by its name.
struct Written {
  fs::path path;
  std::int64_t seconds = 0;
};

std::optional<Written> written_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return {};
  const std::string_view rest = std::string_view(name).substr(kBegin.size());
  const auto seconds = number_in(rest.substr(0, rest.find('.')));
  if (!seconds) return {};
  return Written{.path = path, .seconds = *seconds};
}

/// Returns the files, oldest first.
std::vector<Written> files_in(const fs::path& folder) {
  std::vector<Written> files;
  if (!fs::is_directory(folder)) return files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!fs::is_regular_file(entry.symlink_status())) {
      if (!written_of(entry.path())) continue;
      spdlog::warn(
          "{}: not a regular file, so steps that will be repeated are not removed from it: "
          "TensorBoard may show them twice; replace it by a regular file",
          entry.path().string());
      continue;
    }
    if (auto file = written_of(entry.path())) files.push_back(std::move(*file));
  }
  std::ranges::sort(files, {}, &Written::seconds);
  return files;
}

std::string_view as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Reads the events of a file in order.
class EventReader {
 public:
  explicit EventReader(const fs::path& path) : file_(path) {}

  /// Returns nullopt at the end of the file, and at an incomplete or damaged frame.
  std::optional<tensorboard::Event> next() {
    const auto header = read(kFrameHeaderBytes);
    if (header.size() < kFrameHeaderBytes) return {};
    const auto bytes = data_bytes_of(as_text(header));
    damaged_ = !bytes;
    if (damaged_) return {};
    const std::uint64_t room = file_.bytes() - std::min(file_.bytes(), end_ + kFrameHeaderBytes);
    if (room < kFrameFooterBytes || *bytes > room - kFrameFooterBytes) return {};
    const auto data = read(*bytes);
    const auto footer = read(kFrameFooterBytes);
    if (footer.size() < kFrameFooterBytes) return {};
    tensorboard::Event event;
    damaged_ = !matches(as_text(data), as_text(footer)) ||
               !event.ParseFromArray(data.data(), static_cast<int>(data.size()));
    if (damaged_) return {};
    end_ += kFrameHeaderBytes + *bytes + kFrameFooterBytes;
    return event;
  }
  [[nodiscard]] std::uint64_t end() const { return end_; }  ///< end of the last event
  [[nodiscard]] bool damaged() const {
    return damaged_;
  }  ///< the next frame is complete, but invalid

 private:
  /// Returns fewer bytes than requested at the end of the file.
  std::vector<std::byte> read(std::uint64_t bytes) {
    std::vector<std::byte> found(bytes);
    found.resize(file_.read(found));
    return found;
  }

  RegularFile file_;
  std::uint64_t end_ = 0;
  bool damaged_ = false;
};

/// The part of a file to keep.
struct Kept {
  std::uint64_t bytes = 0;
  bool shows_something = false;
  std::int64_t first_step = 0;  ///< first step of the process that wrote it
};

Kept kept_of(const Written& written, std::int64_t first_step) {
  EventReader events(written.path);
  Kept kept;
  while (const auto event = events.next()) {
    if (event->has_session_log()) kept.first_step = event->step();
    if (event->has_summary()) {
      if (event->step() >= first_step) break;
      kept.shows_something = true;
    }
    kept.bytes = events.end();
  }
  if (events.damaged()) {
    spdlog::warn("{}: damaged after byte {}; the rest is dropped", written.path.string(),
                 kept.bytes);
  }
  return kept;
}

/// Cuts a file. Returns whether earlier files may contain events to drop. They contain none if this
/// file was begun at or before `first_step`, because the later events of earlier files were dropped
/// then.
bool cut(const Written& file, std::int64_t first_step) {
  const Kept kept = kept_of(file, first_step);
  if (!kept.shows_something) {
    fs::remove(file.path);
    return true;
  }
  if (kept.bytes < fs::file_size(file.path)) fs::resize_file(file.path, kept.bytes);
  return kept.first_step > first_step;
}

std::string host_part() {
  std::string host = host_name();
  std::ranges::replace_if(
      host, [](char c) { return c <= ' ' || c == '/' || c == 0x7f; }, '_');
  return host;
}

}  // namespace

void drop_orphaned_events(const fs::path& tensorboard, std::int64_t first_step) {
  as_storage_error([&] {
    std::vector<Written> files = files_in(tensorboard);
    std::ranges::reverse(files);
    for (const Written& file : files) {
      if (!cut(file, first_step)) break;
    }
  });
}

fs::path next_event_file(const fs::path& tensorboard) {
  return as_storage_error([&] {
    using std::chrono::system_clock;
    std::int64_t seconds = system_clock::to_time_t(system_clock::now());
    for (const Written& file : files_in(tensorboard)) {
      seconds = std::max(seconds, file.seconds + 1);
    }
    fs::create_directories(tensorboard);
    return tensorboard / (std::string(kBegin) + std::to_string(seconds) + "." + host_part() + "." +
                          std::to_string(::getpid()) + std::string(kEnd));
  });
}

}  // namespace pfc
