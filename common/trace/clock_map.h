// This machine's clock as the coordinator's, so that what several hosts have recorded fits
// together.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "common/clock.h"

namespace pfc {

/// A question for the coordinator's clock, and the answer.
struct ClockReading {
  TimePoint asked;     ///< here
  TimePoint answered;  ///< here
  WallTime there;      ///< some time between the two
};

/// What is added to a time of `Clock` here, as nanoseconds since that clock's own begin, for
/// nanoseconds since 1970 by the coordinator's clock.
struct ClockOffset {
  TimePoint at;  ///< when it was measured
  std::chrono::nanoseconds offset{0};
  /// It is wrong by no more than this: half the time of the question and its answer.
  std::chrono::nanoseconds error{0};
};

/// That of the reading that took the shortest time. REQUIRES: there is one.
ClockOffset best_offset(std::span<const ClockReading> readings);

/// Two clocks that do not run at quite the same rate: the offset is taken to change evenly from one
/// measurement to the other, so that between them it is no more wrong than they are.
class ClockMap {
 public:
  /// REQUIRES: `after` was measured no sooner than `before`. The same twice: one that does not
  /// change.
  ClockMap(const ClockOffset& before, const ClockOffset& after) : before_(before), after_(after) {}

  /// Nanoseconds since 1970 by the coordinator's clock.
  [[nodiscard]] std::int64_t there(TimePoint here) const;
  [[nodiscard]] std::chrono::nanoseconds error() const;

 private:
  ClockOffset before_;
  ClockOffset after_;
};

}  // namespace pfc
