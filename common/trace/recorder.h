// Records what a worker does, and when, for the few steps of which somebody wants a trace
// (docs/trace.md).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "common/clock.h"

namespace pfc {

/// What a row of a trace shows, and so what TraceSpan::number counts there.
enum class TraceRow {
  kPhases,       ///< of the training thread; number: the step
  kCollectives,  ///< of one communicator; number: as CommCounters::calls has it
  kThread,       ///< of another thread; number: the batch or the step that it works for
  kLoader        ///< of a thread that reads images; number: the batch
};

struct TraceTrackInfo {
  TraceRow row = TraceRow::kThread;
  std::string name;  ///< "training", "step", "loader 0"
};

/// Something that has begun and ended on one row.
struct TraceSpan {
  const char* name = "";    ///< a literal, or text that outlives the span: "forward", "decode"
  std::uint32_t track = 0;  ///< index into TraceRecording::tracks
  TimePoint begin;
  TimePoint end;
  std::int64_t number = 0;
  std::uint64_t bytes = 0;  ///< of a collective: this worker's input
};

/// What was recorded.
struct TraceRecording {
  std::int64_t first_step = 0;  ///< the first that was recorded from its begin on; 0: none was
  std::int64_t last_step = 0;   ///< the last that was recorded to its end; 0: none was
  std::vector<TraceTrackInfo> tracks;
  std::vector<TraceSpan> spans;         ///< in the order of their ends
  std::vector<TraceSpan> loader_spans;  ///< likewise, of the rows that are TraceRow::kLoader
  std::uint64_t dropped = 0;            ///< spans for which there was no room
};

class TraceTrack;

/// Thread-safe, but for begin_step(), which belongs to the training thread. Where nothing is
/// recorded an event costs one relaxed load. Outlives all its tracks.
class TraceRecorder {
 public:
  /// At most so many spans of loaders and of everything else are recorded at once; later ones are
  /// counted and dropped. A span takes 48 bytes of host memory, from arm() to take().
  struct Limits {
    std::size_t spans = std::size_t{1} << 15;
    std::size_t loader_spans = std::size_t{1} << 16;
  };

  TraceRecorder() = default;
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  /// A new row, which every later trace has.
  TraceTrack track(TraceRow row, std::string name);

  /// Records from the begin of step `first` to the begin of the step after `last`: so with what is
  /// done between two steps. From the next step on where `first` has begun already. What an earlier
  /// arm() has recorded and nobody has taken is dropped. Throws std::bad_alloc.
  void arm(std::int64_t first, std::int64_t last, const Limits& limits);
  void arm(std::int64_t first, std::int64_t last) { arm(first, last, Limits()); }
  /// Blocks until what arm() has asked for is recorded, or stop() was called. REQUIRES: arm().
  void wait();
  /// Ends the recording, if there is one: no step follows, or nobody wants it any more.
  void stop();
  /// What was recorded, and gives back its memory. REQUIRES: wait() has returned.
  TraceRecording take();

  /// A step begins. From its begin on the spans belong to it.
  void begin_step(std::int64_t step) {
    if (armed_.load(std::memory_order_relaxed)) change_step(step);
  }
  /// The one that runs now, while something is recorded.
  [[nodiscard]] std::int64_t step() const { return step_.load(std::memory_order_relaxed); }

  [[nodiscard]] bool on() const { return on_.load(std::memory_order_relaxed); }
  /// Drops the span where nothing is recorded any more.
  void add(TraceRow row, const TraceSpan& span);

 private:
  void change_step(std::int64_t step);
  void end();  ///< REQUIRES: mutex_ is held

  std::atomic<bool> armed_{false};  ///< from arm() to the end of the recording
  std::atomic<bool> on_{false};
  std::atomic<std::int64_t> step_{0};
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  // Guarded by mutex_:
  std::vector<TraceTrackInfo> tracks_;
  TraceRecording recording_;  ///< without its tracks
  Limits limits_;
  std::int64_t first_ = 0;
  std::int64_t last_ = 0;
  bool ended_ = false;
};

/// A row of a recorder, or, made without one, a row that records nothing. A copy is the same row.
class TraceTrack {
 public:
  TraceTrack() = default;

  [[nodiscard]] bool on() const { return recorder_ != nullptr && recorder_->on(); }
  /// For who measures the time anyway. Does nothing where nothing is recorded.
  void add(const char* name, TimePoint begin, TimePoint end, std::int64_t number,
           std::uint64_t bytes = 0) const {
    if (on()) recorder_->add(row_, {name, id_, begin, end, number, bytes});
  }
  /// The step that runs now, while something is recorded.
  [[nodiscard]] std::int64_t step() const { return recorder_ == nullptr ? 0 : recorder_->step(); }

  /// A span that lasts as long as this object. What had begun before the recording is left out.
  /// REQUIRES: name is a string literal.
  class Scope {
   public:
    Scope(const TraceTrack& track, const char* name, std::int64_t number = 0)
        : track_(track.on() ? &track : nullptr), name_(name), number_(number) {
      if (track_ != nullptr) begin_ = Clock::now();
    }
    ~Scope() {
      if (track_ != nullptr) track_->add(name_, begin_, Clock::now(), number_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const TraceTrack* const track_;
    const char* const name_;
    const std::int64_t number_;
    TimePoint begin_;
  };

 private:
  friend class TraceRecorder;
  TraceTrack(TraceRecorder& recorder, TraceRow row, std::uint32_t id)
      : recorder_(&recorder), row_(row), id_(id) {}

  TraceRecorder* recorder_ = nullptr;
  TraceRow row_ = TraceRow::kThread;
  std::uint32_t id_ = 0;
};

/// A row of the recorder, which may be null: then one that records nothing.
inline TraceTrack track_of(TraceRecorder* recorder, TraceRow row, const std::string& name) {
  return recorder == nullptr ? TraceTrack() : recorder->track(row, name);
}

}  // namespace pfc
