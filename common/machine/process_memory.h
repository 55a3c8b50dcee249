// How much memory this process uses, from /proc.
#pragma once

#include <cstdint>

namespace pfc {

struct ProcessMemory {
  std::uint64_t resident_bytes = 0;
  std::uint64_t peak_resident_bytes = 0;
};

/// Zeros where /proc/self/status cannot be read.
ProcessMemory process_memory();

}  // namespace pfc
