// Streams, events and graphs of an emulated GPU. Work that is enqueued runs as late as it may: when
// a host thread waits for it. So a host that does not wait, or a stream that was not ordered behind
// another, meets memory that is not written yet. Thread-safe. Serves tests only.
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
  /// While the stream is captured, into its graph instead.
  void enqueue(Work work);
  /// Runs what has been enqueued so far, here. Rethrows what it throws.
  void synchronize();
  void run_until(std::uint64_t ticket);
  /// Number of works enqueued so far.
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
  std::unique_ptr<Graph> captured_;  // guarded by mutex_; null: not being captured
  std::atomic<std::uint64_t> done_ = 0;
};

/// Where a stream stood when the event was recorded.
class Event {
 public:
  void record(const std::shared_ptr<Stream>& stream);
  void synchronize();
  [[nodiscard]] bool done();
  /// The stream's later work waits for this event.
  void make_wait(Stream& stream);

 private:
  struct Point {
    std::shared_ptr<Stream> stream;  // shared: a stream may go before its events
    std::uint64_t ticket = 0;
    bool captured = false;  // recorded while the stream was captured: a part of that graph alone
  };
  Point point();

  std::mutex mutex_;
  Point point_;  // guarded by mutex_
};

}  // namespace pfc::simt
