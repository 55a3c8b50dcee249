#include "kernels/cuda/cuda_device.h"
#include "tests/kernels/on_each_device.h"

namespace pfc {

std::vector<TestDevice> test_devices() {
  const DeviceInfo gpu = cuda_devices().front();
  const std::string why_not = gpu.available ? "" : "no GPU: " + gpu.detail;
  return {{"Gpu", [] { return make_cuda_ops({}); }, why_not},
          {"GpuBf16", [] { return make_cuda_ops({.activations = DType::kBFloat16}); }, why_not},
          {"GpuFp16", [] { return make_cuda_ops({.activations = DType::kFloat16}); }, why_not}};
}

}  // namespace pfc
