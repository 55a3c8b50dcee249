// Converts times between this process's clock and another clock: the coordinator's, to merge
// recordings of several hosts, or CUPTI's, to merge those of a GPU and its host.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "common/clock.h"

namespace pfc {

/// One reading of the other clock.
struct ClockReading {
  TimePoint asked;     ///< local time of the request
  TimePoint answered;  ///< local time of the response
  WallTime there;      ///< the other clock's time, read between `asked` and `answered`
};

/// Difference between the other clock's time (the coordinator's: ns since 1970) and the local
/// `Clock`, in ns.
struct ClockOffset {
  TimePoint at;  ///< local time of the measurement
  std::chrono::nanoseconds offset{0};
  /// Maximum error: half of the round-trip time.
  std::chrono::nanoseconds error{0};
};

/// Returns the offset of the reading with the shortest round trip. REQUIRES: at least one reading.
ClockOffset best_offset(std::span<const ClockReading> readings);

/// Maps between two clocks that run at slightly different rates. Interpolates the offset linearly
/// between two measurements. Between them, the error is at most the larger of their two errors.
class ClockMap {
 public:
  /// REQUIRES: `after` is not earlier than `before`. Pass one value twice for a constant offset.
  ClockMap(const ClockOffset& before, const ClockOffset& after) : before_(before), after_(after) {}

  /// Returns the other clock's time in ns (the coordinator's: since 1970) at the local time `here`.
  [[nodiscard]] std::int64_t there(TimePoint here) const;
  [[nodiscard]] std::chrono::nanoseconds error() const;

 private:
  ClockOffset before_;
  ClockOffset after_;
};

}  // namespace pfc
