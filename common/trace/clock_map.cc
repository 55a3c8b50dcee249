#include "common/trace/clock_map.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"

namespace pfc {
namespace {

using std::chrono::duration_cast, std::chrono::nanoseconds;

nanoseconds since_begin(TimePoint here) {
  return duration_cast<nanoseconds>(here.time_since_epoch());
}

}  // namespace

ClockOffset best_offset(std::span<const ClockReading> readings) {
  check(!readings.empty(), "best_offset: no readings");
  const ClockReading& best = *std::ranges::min_element(
      readings, {}, [](const ClockReading& reading) { return reading.answered - reading.asked; });
  const auto half = (best.answered - best.asked) / 2;
  const TimePoint middle = best.asked + half;
  return {.at = middle,
          .offset = duration_cast<nanoseconds>(best.there.time_since_epoch()) - since_begin(middle),
          .error = duration_cast<nanoseconds>(half)};
}

std::int64_t ClockMap::there(TimePoint here) const {
  const std::chrono::duration<double> whole = after_.at - before_.at;
  const std::chrono::duration<double> part = here - before_.at;
  const double share = whole.count() > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0.0;
  const auto moved = static_cast<double>((after_.offset - before_.offset).count());
  return (since_begin(here) + before_.offset).count() + std::llround(share * moved);
}

nanoseconds ClockMap::error() const { return std::max(before_.error, after_.error); }

}  // namespace pfc
