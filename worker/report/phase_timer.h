// Times the named phases of training, and knows which one runs now.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/trace/profiler_range.h"
#include "common/trace/recorder.h"

namespace pfc {

/// Belongs to the training thread; current() may be called from any thread. On a GPU a phase takes
/// as long as the host needs to enqueue its work, and to wait where it waits.
class PhaseTimer {
 public:
  struct Sample {
    const char* phase;
    double seconds;
  };

  /// Each phase is recorded on this row of a trace, too.
  explicit PhaseTimer(const TraceTrack& track = {}) : track_(track) {}

  /// Runs `body` as the phase `name` and returns what it returns. Phases do not nest.
  /// REQUIRES: name is a string literal.
  template <typename Body>
  auto operator()(const char* name, Body&& body) {
    const Scope scope(*this, name);
    return std::forward<Body>(body)();
  }

  /// The phases that have ended since the last take(), in the order of their ends.
  std::vector<Sample> take() { return std::exchange(samples_, {}); }
  /// The phase that runs now; kNone before the first phase and between two.
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
