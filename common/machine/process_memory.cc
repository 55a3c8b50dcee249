#include "common/machine/process_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace pfc {

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  const std::pair<std::string_view, std::uint64_t*> values[] = {
      {"VmRSS:", &memory.resident_bytes},
      {"VmHWM:", &memory.peak_resident_bytes},
      {"VmSize:", &memory.address_space_bytes}};
  for (std::string line; std::getline(status, line);) {
    for (const auto& [name, value] : values) {
      if (line.starts_with(name)) *value = std::stoull(line.substr(name.size())) * 1024;
    }
  }
  return memory;
}

std::optional<std::uint64_t> address_space_left() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const std::uint64_t used = process_memory().address_space_bytes;
  return limit.rlim_cur - std::min<std::uint64_t>(used, limit.rlim_cur);
}

}  // namespace pfc
