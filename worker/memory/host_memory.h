// How much memory of this host a process may still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace pfc {

struct HostMemory {
  std::uint64_t available_bytes = 0;
  /// What sets the limit, for people: "MemAvailable of /proc/meminfo" or "memory.max of
  /// /sys/fs/cgroup/job".
  std::string limit;
};

/// The least of what the kernel says is available without swapping, and of what each control group
/// (v2, or v1's memory controller) that this process is in has left; the page cache counts as free.
/// `root` is for tests: "/proc/meminfo" and the like are looked for under it. Where nothing can be
/// read there is no limit: the largest number.
HostMemory host_memory(const std::filesystem::path& root = "/");

}  // namespace pfc
