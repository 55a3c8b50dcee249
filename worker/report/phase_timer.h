// Measures the named phases of training, and knows the current one.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/trace/profiler_range.h"
#include "common/trace/recorder.h"

namespace pfc {

/// Used by the training thread; current() may be called from any thread. On a GPU the duration of
/// a phase is the time to enqueue its work, plus the time that the host waits.
class PhaseTimer {
 public:
  struct Sample {
    const char* phase;
    double seconds;
  };

  /// Each phase is also recorded on this row of a trace.
  explicit PhaseTimer(const TraceTrack& track = {}) : track_(track) {}

  /// Runs `body` as the phase `name`, and returns its result. Not nested. REQUIRES: name is a
  /// literal.
  template <typename Body>
  auto operator()(const char* name, Body&& body) {
    const Scope scope(*this, name);
    return std::forward<Body>(body)();
  }

  /// Returns the phases that ended since the last take(), in that order.
  std::vector<Sample> take() { return std::exchange(samples_, {}); }
  /// Returns the current phase; kNone before the first phase and between two.
  [[nodiscard]] const char* current() const { return current_.load(std::memory_order_relaxed); }

  static constexpr const char* kNone = "between phases";

 private:
  class Scope {
   public:
    Scope(PhaseTimer& timer, const char* name) : range_(name), timer_(timer), start_(Clock::now()) {
      timer_.current_.store(name, std::memory_order_relaxed);
    }
    ~Scope() {
      const TimePoint end = Clock::now();
      timer_.samples_.push_back({timer_.current(), seconds_since(start_, end)});
      timer_.track_.add(timer_.current(), start_, end, timer_.track_.step());
      timer_.current_.store(kNone, std::memory_order_relaxed);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const ProfilerRange range_;
    PhaseTimer& timer_;
    TimePoint start_;
  };

  const TraceTrack track_;
  std::atomic<const char*> current_{kNone};
  std::vector<Sample> samples_;
};

}  // namespace pfc
