// How much memory this process uses, from /proc.
#pragma once

#include <cstdint>
#include <optional>

namespace pfc {

struct ProcessMemory {
  std::uint64_t resident_bytes = 0;
  std::uint64_t peak_resident_bytes = 0;
  std::uint64_t address_space_bytes = 0;  ///< mapped, whether it is in memory or not
};

/// Zeros where /proc/self/status cannot be read.
ProcessMemory process_memory();

/// How much more this process may map before its limit (RLIMIT_AS, ulimit -v) is reached; nullopt
/// where there is none.
std::optional<std::uint64_t> address_space_left();

}  // namespace pfc
