// The clock that measures how long something takes, which never jumps when the time of day is set;
// and the time of day, for people.
#pragma once

#include <chrono>
#include <cstdint>

namespace pfc {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

/// How long ago `start` was, in seconds: until now, or until a later moment that was noted.
inline double seconds_since(TimePoint start, TimePoint now = Clock::now()) {
  return std::chrono::duration<double>(now - start).count();
}

using WallTime = std::chrono::system_clock::time_point;

inline WallTime wall_now() { return std::chrono::system_clock::now(); }

/// Milliseconds since 1970.
inline std::int64_t to_ms(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}
inline WallTime from_ms(std::int64_t ms) { return WallTime(std::chrono::milliseconds{ms}); }

}  // namespace pfc
