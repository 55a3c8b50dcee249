#include <algorithm>
#include <cctype>
#include <iterator>

#include "kernels/cpu/ops/cpu_ops.h"
#include "tests/kernels/on_each_device.h"

namespace pfc {

std::vector<TestDevice> test_devices() {
  std::vector<TestDevice> devices;
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    std::string name;
    std::ranges::copy_if(std::string(kernels->name), std::back_inserter(name), ::isalnum);
    for (const int threads : {1, 3}) {
      devices.push_back(
          {"Cpu" + name + "Threads" + std::to_string(threads),
           [threads, kernels](int) { return std::make_unique<CpuOps>(threads, *kernels); }});
    }
  }
  std::ranges::move(emulated_gpus(), std::back_inserter(devices));
  return devices;
}

}  // namespace pfc
