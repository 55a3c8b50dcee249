// Streams, events and graphs of an emulated GPU. Enqueued work runs as late as possible: when a
// host thread waits for it. So code with a missing wait reads memory that is not written yet.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace pfc::simt {

using Work = std::function<void()>;
using Graph = std::vector<Work>;

class Stream {
 public:
  /// Adds work to the stream, or to the graph during a capture.
  void enqueue(Work work);
  /// Runs all enqueued work in the calling thread. Rethrows its exceptions.
  void synchronize();
  void run_until(std::uint64_t ticket);
  /// Returns the number of enqueued works so far.
  [[nodiscard]] std::uint64_t ticket();
  [[nodiscard]] bool done(std::uint64_t ticket) const { return done_ >= ticket; }

  void begin_capture();
  Graph end_capture();
  [[nodiscard]] bool capturing();

 private:
  std::recursive_mutex running_;
  std::mutex mutex_;
  std::deque<Work> queue_;           // guarded by mutex_
  std::uint64_t enqueued_ = 0;       // guarded by mutex_
  std::unique_ptr<Graph> captured_;  // guarded by mutex_; null: no capture
  std::atomic<std::uint64_t> done_ = 0;
};

/// A point in a stream: all work enqueued before record().
class Event {
 public:
  void record(const std::shared_ptr<Stream>& stream);
  void synchronize();
  [[nodiscard]] bool done();
  /// Makes later work of the stream wait for this event.
  void make_wait(Stream& stream);

 private:
  struct Point {
    std::shared_ptr<Stream> stream;  // shared, because a stream may be destroyed before its events
    std::uint64_t ticket = 0;
    bool captured = false;  // recorded during a capture, so valid only in that graph
  };
  Point point();

  std::mutex mutex_;
  Point point_;  // guarded by mutex_
};

}  // namespace pfc::simt
