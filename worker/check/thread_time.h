// CPU time of the calling thread.
#pragma once

#include <ctime>

namespace pfc {

/// Returns seconds from an arbitrary origin. Stands still while the thread does not run.
inline double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace pfc
