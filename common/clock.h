// The clock that measures how long something takes: it never jumps when the time of day is set.
#pragma once

#include <chrono>

namespace pfc {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

/// How long ago `start` was, in seconds: until now, or until a later moment that was noted.
inline double seconds_since(TimePoint start, TimePoint now = Clock::now()) {
  return std::chrono::duration<double>(now - start).count();
}

}  // namespace pfc
