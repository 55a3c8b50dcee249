#include "kernels/cpu/cpu_info.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <oneapi/dnnl/dnnl.hpp>

#include "common/machine/cores.h"
#include "kernels/cpu/vector/vector_kernels.h"

namespace pfc {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown model";
}

std::string memory_gib() {
  const auto bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                     static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  return std::to_string((bytes + (std::uint64_t{1} << 29)) >> 30) + " GiB";
}

}  // namespace

DeviceInfo cpu_device() {
  const int cores = usable_cores();
  return {.kind = "CPU",
          .available = true,
          .detail = cpu_model() + ", " + std::to_string(cores) +
                    (cores == 1 ? " usable core, " : " usable cores, ") +
                    best_vector_kernels().name + ", " + memory_gib() + " memory"};
}

std::vector<LibraryInfo> kernel_libraries() {
  const dnnl_version_t* v = dnnl_version();
  return {{.name = "oneDNN",
           .version = std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
                      std::to_string(v->patch)}};
}

}  // namespace pfc
