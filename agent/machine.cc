#include "agent/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <thread>

#include "common/version.h"

namespace pfc {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(CPU_COUNT(&cores), 1);
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

GpuSearch usable_gpus() {
  if (std::string_view(cuda_version()).empty()) {
    return {.gpus = {}, .problem = "pfc-worker was built without CUDA"};
  }
  return find_gpus();
}

std::vector<std::string> list_devices(const std::vector<Gpu>& gpus) {
  std::vector<std::string> devices{"cpu (" + std::to_string(usable_cores()) + " cores)"};
  for (const Gpu& gpu : gpus) devices.push_back(describe(gpu));
  return devices;
}

}  // namespace pfc
