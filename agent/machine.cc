#include "agent/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

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

std::vector<std::string> list_devices() {
  return {"cpu (" + std::to_string(usable_cores()) + " cores)"};
}

}  // namespace pfc
