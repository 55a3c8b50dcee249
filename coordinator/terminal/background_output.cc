#include "coordinator/terminal/background_output.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "common/counted.h"
#include "common/log.h"

namespace pfc {
namespace {

constexpr std::chrono::milliseconds kFinishTimeout{2'000};

bool same_file(int a, int b) {
  struct stat first {
  }, second{};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

std::uint64_t lines_in(std::string_view text) {
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

/// Writes everything, blocking as long as needed. Returns false on an error: the reader is gone,
/// or the disk is full.
bool write_all_waiting(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {  // another process that shares it made it non-blocking
      pollfd output{.fd = fd, .events = POLLOUT, .revents = 0};
      poll(&output, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

/// Queue and writer thread of one file, pipe or terminal.
struct BackgroundOutput::Lane {
  struct Piece {
    int fd = -1;
    std::string text;
  };

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ending || !queue.empty(); });
      if (ending) return;
      const Piece& piece = queue.front();  // stays in place while others are appended
      lock.unlock();
      const bool written = write_all_waiting(piece.fd, piece.text);
      lock.lock();
      if (!written) all_dropped += lines_in(piece.text);
      bytes -= piece.text.size();
      queue.pop_front();
      ++done;
      if (2 * bytes < kMaxBytes) full = false;
      changed.notify_all();
    }
  }

  /// Queues the text, or counts its lines if the queue is full.
  void add(int fd, std::string_view text, bool is_message) {
    const std::lock_guard lock(mutex);
    if (!is_message && bytes + text.size() > kMaxBytes) full = true;
    const bool room = is_message ? bytes + text.size() <= kMaxBytes + kMaxMessageBytes : !full;
    if (!room) {
      dropped_of(fd) += lines_in(text);
      all_dropped += lines_in(text);
      return;
    }
    if (!full) tell_dropped(fd);
    push(fd, std::string(text));
  }

  /// Queues a message with the number of dropped lines. REQUIRES: mutex is held.
  void tell_dropped(int fd) {
    const std::uint64_t lines = std::exchange(dropped_of(fd), 0);
    if (lines == 0) return;
    push(fd, message_line("pfc-coordinator", Severity::kWarning,
                          "dropped here: " + counted(static_cast<long long>(lines), "line") +
                              " of output that was not read",
                          false) +
                 "\n");
  }

  /// REQUIRES: mutex is held.
  void push(int fd, std::string text) {
    bytes += text.size();
    queue.push_back({.fd = fd, .text = std::move(text)});
    changed.notify_all();
  }

  /// REQUIRES: mutex is held.
  std::uint64_t& dropped_of(int fd) { return dropped[fd == first_fd ? 0 : 1]; }

  explicit Lane(int fd) : first_fd(fd) {}

  const int first_fd;
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex. Only the writer thread removes pieces.
  std::deque<Piece> queue;
  std::size_t bytes = 0;                   ///< size of the queued text
  bool full = false;                       ///< set when the queue is full, until it is half empty
  std::uint64_t done = 0;                  ///< number of written pieces
  std::array<std::uint64_t, 2> dropped{};  ///< not reported yet, by descriptor
  std::uint64_t all_dropped = 0;
  bool ending = false;
};

BackgroundOutput::BackgroundOutput(int out, int err) : out_(out), err_(err) {
  lanes_.push_back(std::make_shared<Lane>(out));
  if (!same_file(out, err)) lanes_.push_back(std::make_shared<Lane>(err));
  // Detached, because a thread blocked by a reader could not be joined.
  for (const auto& lane : lanes_) std::thread([lane] { lane->run(); }).detach();
}

BackgroundOutput::~BackgroundOutput() {
  finish(kFinishTimeout);
  for (const auto& lane : lanes_) {
    const std::lock_guard lock(lane->mutex);
    lane->ending = true;
    lane->changed.notify_all();
  }
}

void BackgroundOutput::write(Kind kind, std::string_view text) {
  const bool to_stdout = kind == Kind::kWorkerStdout;
  Lane& lane = to_stdout ? *lanes_.front() : *lanes_.back();
  lane.add(to_stdout ? out_ : err_, text, kind == Kind::kMessage);
}

void BackgroundOutput::write_result(std::string_view text) {
  Lane& lane = *lanes_.front();
  std::unique_lock lock(lane.mutex);
  lane.push(out_, std::string(text));
  lane.changed.wait(lock, [&] { return lane.queue.empty(); });
}

std::uint64_t BackgroundOutput::dropped_lines() const {
  std::uint64_t lines = 0;
  for (const auto& lane : lanes_) {
    const std::lock_guard lock(lane->mutex);
    lines += lane->all_dropped;
  }
  return lines;
}

bool BackgroundOutput::finish(std::chrono::milliseconds patience) {
  bool all = true;
  for (const auto& lane : lanes_) {
    std::unique_lock lock(lane->mutex);
    for (const int fd : {out_, err_}) {
      if (lane == (fd == out_ ? lanes_.front() : lanes_.back())) lane->tell_dropped(fd);
    }
    for (std::uint64_t before = lane->done; !lane->queue.empty(); before = lane->done) {
      const auto moved = [&] { return lane->queue.empty() || lane->done != before; };
      if (!lane->changed.wait_for(lock, patience, moved)) break;
    }
    all = all && lane->queue.empty();
  }
  return all;
}

}  // namespace pfc
