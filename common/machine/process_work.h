// CPU time and bytes read of this process.
#pragma once

#include <cstdint>

namespace pfc {

struct ProcessWork {
  double cpu_seconds = 0;        ///< sum over all threads
  std::uint64_t bytes_read = 0;  ///< by read(2) and similar calls, and from disk; 0 if unknown
};

/// Returns the totals since the process started, from getrusage(2) and /proc/self/io.
ProcessWork process_work();

}  // namespace pfc
