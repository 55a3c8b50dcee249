// The limits that a shell, batch system or container sets for a process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace pfc {

/// What a program must be allowed at least to do its work.
struct ProcessNeeds {
  std::uint64_t files = 0;  ///< open at the same time: also pipes and connections
  /// Mapped memory. gRPC's threads and their memory pools map much more than they use, and a worker
  /// still more.
  std::uint64_t address_space = std::uint64_t{1} << 30;
};

/// Throws InputError that names the limit, what was found and what was expected. Beyond a limit the
/// libraries only say that a peer cannot be reached, or nothing. REQUIRES: a program that raises
/// its limit of open files has done so.
void expect_limits(const ProcessNeeds& needs);

/// A control group of this process, or one of its ancestors.
struct ControlGroup {
  std::filesystem::path name;    ///< "/sys/fs/cgroup/job"
  std::filesystem::path folder;  ///< where its files are: `name` below the root
  int version = 2;               ///< cgroup version; decides the file names
};

/// This process's group for a controller ("memory", "cpu") and all groups around it, the innermost
/// first. In a container the group's own name may not be there, but what limits the container is at
/// the mount's root, the last one. `root` is another folder in tests.
std::vector<ControlGroup> control_groups(const std::string& controller,
                                         const std::filesystem::path& root = "/");

}  // namespace pfc
