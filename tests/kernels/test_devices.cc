#include <algorithm>
#include <cctype>
#include <iterator>

#include "kernels/cpu/margin/tile_products.h"
#include "kernels/cpu/ops/cpu_ops.h"
#include "tests/kernels/on_each_device.h"

namespace pfc {
namespace {

TestDevice cpu(const VectorKernels& kernels, int threads, DType type) {
  std::string name = "Cpu";
  std::ranges::copy_if(std::string(kernels.name), std::back_inserter(name), ::isalnum);
  name += "Threads" + std::to_string(threads);
  const bool lacks = type == DType::kBFloat16 && !cpu_has_bfloat16();
  return {
      name + (type == DType::kFloat32 ? "" : "Bf16"),
      [threads, &kernels, type](int) { return std::make_unique<CpuOps>(threads, kernels, type); },
      lacks ? "this CPU has no avx512_bf16" : ""};
}

}  // namespace

std::vector<TestDevice> test_devices() {
  std::vector<TestDevice> devices;
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    for (const int threads : {1, 3}) {
      for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
        devices.push_back(cpu(*kernels, threads, type));
      }
    }
  }
  std::ranges::move(emulated_gpus(), std::back_inserter(devices));
  return devices;
}

}  // namespace pfc
