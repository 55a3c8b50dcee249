// Monotonic time behind an interface, so that decisions about lateness are tested without waiting.
#pragma once

#include <chrono>

namespace pfc {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

}  // namespace pfc
