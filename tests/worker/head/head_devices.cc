#include "tests/worker/head/head_devices.h"

#include "kernels/cuda/cuda_device.h"

namespace pfc::testing {

std::vector<HeadDevice> head_devices() {
  std::vector<HeadDevice> devices{cpu_head_device()};
  if (!cuda_devices().front().available) return devices;  // no emulation under ThreadSanitizer
  devices.push_back({"EmulatedGpu", [](int /*threads*/) { return make_cuda_ops({}); }});
  return devices;
}

}  // namespace pfc::testing
