// The time that the calling thread has computed.
#pragma once

#include <ctime>

namespace pfc {

/// In seconds, from any beginning. It stands still while the thread waits, or another one has its
/// core.
inline double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace pfc
