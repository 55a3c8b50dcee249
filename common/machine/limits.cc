#include "common/machine/limits.h"

#include <sys/resource.h>

#include <fstream>
#include <string>

#include "common/byte_size.h"
#include "common/error.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

void add_groups(const fs::path& root, const fs::path& mount, const std::string& group, int version,
                std::vector<ControlGroup>& groups) {
  fs::path relative = fs::path(group).relative_path();
  while (true) {
    const fs::path name = relative.empty() ? mount : mount / relative;
    groups.push_back({.name = name, .folder = root / name.relative_path(), .version = version});
    if (relative.empty()) return;
    relative = relative.parent_path();
  }
}

}  // namespace

void expect_limits(const ProcessNeeds& needs) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < needs.files) {
    throw InputError("open files: found a limit of " + std::to_string(limit.rlim_cur) +
                     " (ulimit -Hn), expected at least " + std::to_string(needs.files) +
                     "; raise it");
  }
  // RLIM_INFINITY is the largest value, so it passes.
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < needs.address_space) {
    throw InputError("address space: found a limit of " + byte_size_text(limit.rlim_cur) +
                     " (ulimit -v), expected at least " + byte_size_text(needs.address_space) +
                     "; raise it, best with ulimit -v unlimited");
  }
}

std::vector<ControlGroup> control_groups(const std::string& controller, const fs::path& root) {
  std::vector<ControlGroup> groups;
  // Lines are "0::/group" (version 2) and "4:memory:/group", "5:cpu,cpuacct:/group" (version 1).
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    const fs::path mount = "/sys/fs/cgroup";
    if (controllers == ",,") {
      add_groups(root, mount, group, 2, groups);
    } else if (controllers.find("," + controller + ",") != std::string::npos) {
      add_groups(root, mount / controller, group, 1, groups);
      const std::string together = controllers.substr(1, controllers.size() - 2);
      if (together != controller) add_groups(root, mount / together, group, 1, groups);
    }
  }
  return groups;
}

}  // namespace pfc
