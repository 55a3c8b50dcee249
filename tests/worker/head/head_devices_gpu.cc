#include "kernels/cuda/cuda_device.h"
#include "tests/worker/head/head_devices.h"

namespace pfc::testing {

std::vector<HeadDevice> head_devices() {
  const DeviceInfo gpu = cuda_devices().front();
  return {{"Gpu", [](int /*threads*/) { return make_cuda_ops({}); },
           gpu.available ? "" : "no GPU: " + gpu.detail}};
}

}  // namespace pfc::testing
