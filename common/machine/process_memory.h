// Memory usage of this process, from /proc.
#pragma once

#include <cstdint>
#include <optional>

namespace pfc {

struct ProcessMemory {
  std::uint64_t resident_bytes = 0;
  std::uint64_t peak_resident_bytes = 0;
  std::uint64_t address_space_bytes = 0;  ///< mapped, resident or not
};

/// Returns zeros if /proc/self/status cannot be read.
ProcessMemory process_memory();

/// Returns how many more bytes this process may map before it reaches its limit (RLIMIT_AS, ulimit
/// -v); nullopt if there is no limit.
std::optional<std::uint64_t> address_space_left();

}  // namespace pfc
