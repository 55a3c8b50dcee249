#include "tests/worker/head/head_devices.h"

namespace pfc::testing {

std::vector<TestDevice> head_devices() {
  std::vector<TestDevice> devices{cpu_head_device()};
  const std::vector<TestDevice> gpus = emulated_gpus();
  if (!gpus.empty()) devices.push_back(gpus.front());
  return devices;
}

}  // namespace pfc::testing
