#include <algorithm>
#include <cctype>
#include <iterator>

#include "kernels/cpu/ops/cpu_ops.h"
#include "kernels/cuda/cuda_device.h"
#include "tests/kernels/on_each_device.h"

namespace pfc {

std::vector<TestDevice> test_devices() {
  std::vector<TestDevice> devices;
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    std::string name;
    std::ranges::copy_if(std::string(kernels->name), std::back_inserter(name), ::isalnum);
    for (const int threads : {1, 3}) {
      devices.push_back({"Cpu" + name + "Threads" + std::to_string(threads),
                         [threads, kernels] { return std::make_unique<CpuOps>(threads, *kernels); },
                         {}});
    }
  }
  if (!cuda_devices().front().available) return devices;  // no emulation under ThreadSanitizer
  devices.push_back({"EmulatedGpu", [] { return make_cuda_ops({}); }, {}});
  devices.push_back(
      {"EmulatedGpuBf16", [] { return make_cuda_ops({.activations = DType::kBFloat16}); }, {}});
  devices.push_back(
      {"EmulatedGpuFp16", [] { return make_cuda_ops({.activations = DType::kFloat16}); }, {}});
  return devices;
}

}  // namespace pfc
