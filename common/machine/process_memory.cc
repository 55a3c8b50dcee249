#include "common/machine/process_memory.h"

#include <fstream>
#include <string>

namespace pfc {

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  std::string key;
  std::uint64_t kib = 0;
  for (std::string line; std::getline(status, line);) {
    const bool peak = line.starts_with("VmHWM:");
    if (!peak && !line.starts_with("VmRSS:")) continue;
    kib = std::stoull(line.substr(6));
    (peak ? memory.peak_resident_bytes : memory.resident_bytes) = kib * 1024;
  }
  return memory;
}

}  // namespace pfc
