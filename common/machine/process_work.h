// How much this process has computed and read.
#pragma once

#include <cstdint>

namespace pfc {

struct ProcessWork {
  double cpu_seconds = 0;        ///< of all threads
  std::uint64_t bytes_read = 0;  ///< by read(2) and its kind, and from disks; 0: not known
};

/// Since the process began, from getrusage(2) and /proc/self/io.
ProcessWork process_work();

}  // namespace pfc
