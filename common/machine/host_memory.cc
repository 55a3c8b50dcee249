#include "common/machine/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include "common/machine/limits.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

/// Returns the number after `key` in lines like "MemAvailable: 123 kB" or "inactive_file 123".
std::optional<std::uint64_t> number_of(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  for (std::string line; file >> word && std::getline(file, line);) {
    if (word == key) return std::strtoull(line.c_str(), nullptr, 10);
  }
  return std::nullopt;
}

/// Reads a file that contains one number. Returns nullopt for "max" or a missing file.
std::optional<std::uint64_t> number_in_file(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

/// File names of a control group, which differ between the versions.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* inactive_file;
  const char* active_file;
};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file", "active_file"};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file", "total_active_file"};

void lower(HostMemory& memory, std::uint64_t available, const std::string& limit) {
  if (available < memory.available_bytes) memory = {available, limit};
}

void look_at_group(const ControlGroup& group, HostMemory& memory) {
  const GroupFiles& files = group.version == 2 ? kVersion2 : kVersion1;
  const auto limit = number_in_file(group.folder / files.limit);
  const auto usage = number_in_file(group.folder / files.usage);
  if (!limit || !usage) return;
  const fs::path statistics = group.folder / "memory.stat";
  const std::uint64_t cache = number_of(statistics, files.inactive_file).value_or(0) +
                              number_of(statistics, files.active_file).value_or(0);
  const std::uint64_t used = *usage - std::min(cache, *usage);
  lower(memory, *limit - std::min(used, *limit),
        std::string(files.limit) + " of " + group.name.string());
}

}  // namespace

HostMemory host_memory(const fs::path& root) {
  HostMemory memory{std::numeric_limits<std::uint64_t>::max(), "no limit found"};
  if (const auto kib = number_of(root / "proc/meminfo", "MemAvailable:")) {
    lower(memory, *kib * 1024, "MemAvailable of /proc/meminfo");
  }
  for (const ControlGroup& group : control_groups("memory", root)) look_at_group(group, memory);
  return memory;
}

}  // namespace pfc
