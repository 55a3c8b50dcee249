// Clock is a steady clock for durations, which never jumps when the system time is set. WallTime
// is the time of day, for display.
#pragma once

#include <chrono>
#include <cstdint>

namespace pfc {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

/// Returns the seconds from `start` until `now`.
inline double seconds_since(TimePoint start, TimePoint now = Clock::now()) {
  return std::chrono::duration<double>(now - start).count();
}

using WallTime = std::chrono::system_clock::time_point;

inline WallTime wall_now() { return std::chrono::system_clock::now(); }

/// Returns the milliseconds since 1970.
inline std::int64_t to_ms(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}
inline WallTime from_ms(std::int64_t ms) { return WallTime(std::chrono::milliseconds{ms}); }

}  // namespace pfc
