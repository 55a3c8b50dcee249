#include "agent/machine.h"

#include <unistd.h>

#include <array>

#include "common/machine/cores.h"

namespace pfc {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::vector<std::string> list_devices(const std::vector<Gpu>& gpus) {
  std::vector<std::string> devices{"cpu (" + std::to_string(usable_cores()) + " cores)"};
  for (const Gpu& gpu : gpus) devices.push_back(describe(gpu));
  return devices;
}

}  // namespace pfc
