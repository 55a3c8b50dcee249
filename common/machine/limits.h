// Checks the limits that a shell, batch system or container sets for a process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace pfc {

/// Minimum limits that a program needs.
struct ProcessNeeds {
  std::uint64_t files = 0;  ///< open at the same time, including pipes and connections
  /// Memory that the program must be able to map, though gRPC's threads and pools use only a small
  /// part of it. A worker needs more (worker/memory/memory_advice.h).
  std::uint64_t address_space = std::uint64_t{1} << 30;
};

/// Throws InputError that names the limit, what was found and what was expected. Checks early: when
/// a limit is exceeded later, libraries report only that a peer is unreachable, or nothing at all.
/// REQUIRES: a program that raises its limit of open files has already done so.
void expect_limits(const ProcessNeeds& needs);

/// A control group of this process, or one of its ancestors.
struct ControlGroup {
  std::filesystem::path name;    ///< "/sys/fs/cgroup/job"
  std::filesystem::path folder;  ///< folder of its files: `name` below control_groups()'s `root`
  int version = 2;               ///< cgroup version; decides the file names
};

/// Returns this process's group for a controller ("memory", "cpu") and its ancestors, innermost
/// first. In a container the group's own path may not exist, but the container's limit is at the
/// root of the mount, which is the last entry. Tests set `root` to another folder.
std::vector<ControlGroup> control_groups(const std::string& controller,
                                         const std::filesystem::path& root = "/");

}  // namespace pfc
