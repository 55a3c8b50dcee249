#include "kernels/cuda/runtime/device.h"

namespace pfc {
namespace {

constexpr std::size_t kAnswerBytes = 256;

cudaDeviceProp make_current(int index) {
  cuda_check(cudaSetDevice(index), "cudaSetDevice");
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return properties;
}

}  // namespace

GpuSizes gpu_sizes(const cudaDeviceProp& properties, int index) {
  int clock = 0, bus = 0;
  cuda_check(cudaDeviceGetAttribute(&clock, cudaDevAttrMemoryClockRate, index), "a clock query");
  cuda_check(cudaDeviceGetAttribute(&bus, cudaDevAttrGlobalMemoryBusWidth, index), "a bus query");
  return {.l2_bytes = properties.l2CacheSize,
          .multiprocessors = properties.multiProcessorCount,
          .memory_bandwidth = memory_bandwidth(clock, bus)};
}

CudaDevice::CudaDevice(const CudaOptions& options)
    : index(options.index),
      activations(options.activations),
      tf32(options.tf32),
      graphs(options.graphs),
      properties(make_current(options.index)),
      sizes(gpu_sizes(properties, options.index)),
      answers(kAnswerBytes) {}

std::string CudaDevice::name() const {
  return "GPU " + std::to_string(index) + " (" + properties.name + ")";
}

void CudaDevice::fetch(const void* from, std::size_t bytes) {
  check(bytes <= answers.bytes(), "CudaDevice: more than 256 bytes to fetch");
  cuda_check(
      cudaMemcpyAsync(answers.as<void>(), from, bytes, cudaMemcpyDeviceToHost, compute.get()),
      "a copy to the host");
  compute.synchronize();
}

}  // namespace pfc
