// Converts this machine's clock to the coordinator's, to merge recordings of several hosts.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "common/clock.h"

namespace pfc {

/// One reading of the coordinator's clock.
struct ClockReading {
  TimePoint asked;     ///< local time of the request
  TimePoint answered;  ///< local time of the response
  WallTime there;      ///< coordinator's time, between the two
};

/// Difference between the coordinator's time (ns since 1970) and the local `Clock`, in ns.
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

  /// Returns the coordinator's time in nanoseconds since 1970.
  [[nodiscard]] std::int64_t there(TimePoint here) const;
  [[nodiscard]] std::chrono::nanoseconds error() const;

 private:
  ClockOffset before_;
  ClockOffset after_;
};

}  // namespace pfc
