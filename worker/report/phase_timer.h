// Times each named phase of a step, and knows which one runs now: for metrics and hang detection.
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"

namespace pfc {

/// Used by the training thread; current() may be read from any thread.
class PhaseTimer {
 public:
  struct Sample {
    const char* phase;
    double seconds;
  };

  /// Runs `body` as the phase `name` (a string literal) and returns what it returns.
  template <typename Body>
  auto operator()(const char* name, Body&& body) {
    const Scope scope(*this, name);
    return std::forward<Body>(body)();
  }

  /// Samples since the last take(), in the order of their ends.
  std::vector<Sample> take() { return std::exchange(samples_, {}); }
  [[nodiscard]] const char* current() const { return current_.load(std::memory_order_relaxed); }

 private:
  class Scope {
   public:
    Scope(PhaseTimer& timer, const char* name)
        : timer_(timer), outer_(timer.current()), start_(Clock::now()) {
      timer_.current_.store(name, std::memory_order_relaxed);
    }
    ~Scope() {
      const std::chrono::duration<double> elapsed = Clock::now() - start_;
      timer_.samples_.push_back({timer_.current(), elapsed.count()});
      timer_.current_.store(outer_, std::memory_order_relaxed);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseTimer& timer_;
    const char* outer_;
    TimePoint start_;
  };

  std::atomic<const char*> current_{"between phases"};
  std::vector<Sample> samples_;
};

}  // namespace pfc
