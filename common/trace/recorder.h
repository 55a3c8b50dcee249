// Records what a worker does, and when, during the few steps of a requested trace (docs/trace.md).
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

/// Content of a row of a trace, and meaning of TraceSpan::number in it.
enum class TraceRow {
  kPhases,       ///< training thread; number: step
  kCollectives,  ///< one communicator; number: as in CommCounters::calls
  kThread,       ///< another thread; number: batch or step that it works on
  kLoader        ///< thread that reads images; number: batch
};

struct TraceTrackInfo {
  TraceRow row = TraceRow::kThread;
  std::string name;  ///< "training", "step", "loader 0"
};

/// A time interval on one row.
struct TraceSpan {
  const char* name = "";    ///< a literal, or text that outlives the span: "forward", "decode"
  std::uint32_t track = 0;  ///< index into TraceRecording::tracks
  TimePoint begin;
  TimePoint end;
  std::int64_t number = 0;
  std::uint64_t bytes = 0;  ///< collectives only: size of this worker's input
};

/// Result of a recording.
struct TraceRecording {
  std::int64_t first_step = 0;  ///< first step recorded from its start; 0 if none
  std::int64_t last_step = 0;   ///< last step recorded to its end; 0 if none
  std::vector<TraceTrackInfo> tracks;
  std::vector<TraceSpan> spans;         ///< sorted by end
  std::vector<TraceSpan> loader_spans;  ///< spans of rows of kind kLoader; sorted by end
  std::uint64_t dropped = 0;            ///< number of spans dropped for lack of room
};

class TraceTrack;

/// Thread-safe, except begin_step(), which only the training thread calls. While not recording, an
/// event costs one relaxed load. Must outlive all its tracks.
class TraceRecorder {
 public:
  /// Maximum number of spans in a recording, for loaders and for all other rows. Later spans are
  /// dropped and counted. A span uses 48 bytes of host memory from arm() to take().
  struct Limits {
    std::size_t spans = std::size_t{1} << 15;
    std::size_t loader_spans = std::size_t{1} << 16;
  };

  TraceRecorder() = default;
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  /// Adds a row, which appears in every later trace.
  TraceTrack track(TraceRow row, std::string name);

  /// Records from the start of step `first` to the start of the step after `last`, including work
  /// between steps. If `first` has already begun, recording starts with the next step. Drops an
  /// earlier recording that was not taken. Throws std::bad_alloc.
  void arm(std::int64_t first, std::int64_t last, const Limits& limits);
  void arm(std::int64_t first, std::int64_t last) { arm(first, last, Limits()); }
  /// Blocks until the recording is complete or stop() is called. REQUIRES: arm().
  void wait();
  /// Ends the recording, if there is one. Called when no step follows, or the recording is not
  /// needed.
  void stop();
  /// Returns the recording and frees its memory. REQUIRES: wait() has returned.
  TraceRecording take();

  /// Starts a step. Later spans belong to it.
  void begin_step(std::int64_t step) {
    if (armed_.load(std::memory_order_relaxed)) change_step(step);
  }
  /// Returns the current step while recording.
  [[nodiscard]] std::int64_t step() const { return step_.load(std::memory_order_relaxed); }

  [[nodiscard]] bool on() const { return on_.load(std::memory_order_relaxed); }
  /// Drops the span if the recording has ended.
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
  TraceRecording recording_;  ///< without tracks
  Limits limits_;
  std::int64_t first_ = 0;
  std::int64_t last_ = 0;
  bool ended_ = false;
};

/// A row of a recorder. A default-constructed track records nothing. Copies refer to the same row.
class TraceTrack {
 public:
  TraceTrack() = default;

  [[nodiscard]] bool on() const { return recorder_ != nullptr && recorder_->on(); }
  /// Adds a span whose begin and end the caller has measured. Does nothing while not recording.
  void add(const char* name, TimePoint begin, TimePoint end, std::int64_t number,
           std::uint64_t bytes = 0) const {
    if (on()) recorder_->add(row_, {name, id_, begin, end, number, bytes});
  }
  /// Returns the current step while recording.
  [[nodiscard]] std::int64_t step() const { return recorder_ == nullptr ? 0 : recorder_->step(); }

  /// Records the lifetime of this object as a span, unless it began before the recording.
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

/// Adds a row to the recorder; if that is nullptr, returns a track that records nothing.
inline TraceTrack track_of(TraceRecorder* recorder, TraceRow row, const std::string& name) {
  return recorder == nullptr ? TraceTrack() : recorder->track(row, name);
}

}  // namespace pfc
