// How much more memory of this host a process may take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace pfc {

struct HostMemory {
  std::uint64_t available_bytes = 0;
  /// Names what sets the limit, for messages: "MemAvailable of /proc/meminfo" or "memory.max of
  /// /sys/fs/cgroup/job".
  std::string limit;
};

/// The smallest of two kinds of limits: the memory that the kernel can give without swapping, and
/// what is left in each control group around this process (version 2, or the memory controller of
/// version 1). The page cache counts as free. Where no limit can be read, available_bytes is the
/// largest number. `root` is for tests: /proc and /sys are looked for under it.
HostMemory host_memory(const std::filesystem::path& root = "/");

}  // namespace pfc
