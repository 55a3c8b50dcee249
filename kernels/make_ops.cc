#include "kernels/make_ops.h"

#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cuda/cuda_device.h"

namespace pfc {
namespace {

bool has_cuda() {
  const std::vector<DeviceInfo> gpus = cuda_devices();
  return std::any_of(gpus.begin(), gpus.end(), [](const DeviceInfo& d) { return d.available; });
}

}  // namespace

std::unique_ptr<Ops> make_ops(const DeviceOptions& options) {
  const bool cuda = options.choice == DeviceChoice::kCuda ||
                    (options.choice == DeviceChoice::kAuto && has_cuda());
  if (cuda) return make_cuda_ops(options.index);
  return std::make_unique<CpuOps>(options.cpu_threads);
}

}  // namespace pfc
