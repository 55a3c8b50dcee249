// Measures how much more memory of this host a process may allocate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace pfc {

struct HostMemory {
  std::uint64_t available_bytes = 0;
  /// For messages: "MemAvailable of /proc/meminfo" or "memory.max of /sys/fs/cgroup/job".
  std::string limit;
};

/// Returns the smallest of these limits: the memory that the kernel can provide without swapping,
/// and what is left in each control group that contains this process (version 2, or the memory
/// controller of version 1). The page cache counts as free. If no limit can be read,
/// available_bytes is the largest number. Tests set `root`: /proc and /sys are read below it.
HostMemory host_memory(const std::filesystem::path& root = "/");

}  // namespace pfc
