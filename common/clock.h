// The clock that measures how long something takes: it never jumps when the time of day is set.
#pragma once

#include <chrono>

namespace pfc {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

}  // namespace pfc
