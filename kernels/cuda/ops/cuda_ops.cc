#include "kernels/cuda/ops/cuda_ops.h"

#include <spdlog/spdlog.h>

#include <cstring>

#include "common/byte_size.h"
#include "common/machine/gpu/gpus.h"
#include "common/machine/gpu/nvml.h"
#include "kernels/cuda/cuda_device.h"

namespace pfc {

namespace {

#ifdef PFC_DEBUG
constexpr bool kDebug = true;
#else
constexpr bool kDebug = false;
#endif

// A wrong plan is a programming error. It must not end a job while there is free GPU memory.
void report_unplanned(std::size_t bytes) {
  const std::string text =
      "GPU memory: the reserved memory has no room for a buffer of " + byte_size_text(bytes) +
      "; the plan should count all buffers (docs/memory.md); please report the job file";
  check(!kDebug, text.c_str());
  spdlog::warn("{}", text);
}

}  // namespace

CudaOps::CudaOps(const CudaOptions& options)
    : device_(options),
      cublas_(device_.name(), device_.tf32),
      cudnn_(device_.name(), device_.compute.get()),
      algorithms_(options.cache, device_.properties.name, Cudnn::version(),
                  Nvml().driver_version()) {
  device_.scratch.reserve(CublasLt::kWorkspaceBytes);  // now, so that no step has to allocate it
}

std::string CudaOps::description() const {
  const cudaDeviceProp& p = device_.properties;
  return "CUDA (GPU " + std::to_string(device_.index) + ": " + p.name + ", sm_" +
         std::to_string(p.major) + std::to_string(p.minor) + ", " +
         std::to_string(p.totalGlobalMem >> 30) + " GiB, " + name_of(device_.activations) + ")";
}

std::unique_ptr<Buffer> CudaOps::allocate(std::size_t bytes) {
  std::unique_ptr<Buffer> buffer = arena_ ? arena_->allocate(bytes) : nullptr;
  if (buffer == nullptr) {
    // The lists of classes depend on the sampled classes, and may be slightly larger than planned.
    constexpr std::size_t kParts = 64;
    if (arena_ && bytes > arena_->bytes() / kParts) report_unplanned(bytes);
    buffer = std::make_unique<CudaBuffer>(bytes);
  }
  if (bytes > 0) {
    cuda_check(cudaMemsetAsync(buffer->data(), 0, bytes, device_.compute.get()), "zeroing memory");
  }
  return buffer;
}

Ops::DeviceMemory CudaOps::memory() const {
  DeviceMemory memory;
  cuda_check(cudaMemGetInfo(&memory.free, &memory.total), "cudaMemGetInfo");
  return memory;
}

void CudaOps::copy_to_device(const Tensor& device, const void* host) {
  cuda_check(cudaMemcpyAsync(device.data, host, device.bytes(), cudaMemcpyHostToDevice,
                             device_.compute.get()),
             "a copy to the GPU");
  device_.compute.synchronize();  // cudaMemcpyAsync() may read pageable memory after it returns
}

void CudaOps::copy_to_host(void* host, const Tensor& device) {
  cuda_check(cudaMemcpyAsync(host, device.data, device.bytes(), cudaMemcpyDeviceToHost,
                             device_.compute.get()),
             "a copy to the host");
  device_.compute.synchronize();
}

void CudaOps::run_copy(const Tensor& from, const Tensor& to) {
  cuda_check(cudaMemcpyAsync(to.data, from.data, from.bytes(), cudaMemcpyDeviceToDevice,
                             device_.compute.get()),
             "a copy on the GPU");
}

void CudaOps::wait_for(const Event& event) {
  dynamic_cast<const CudaEvent&>(event).make_wait(device_.compute.get());
}

std::unique_ptr<Event> CudaOps::record() {
  auto event = std::make_unique<CudaEvent>();
  event->record(device_.compute.get());
  return event;
}

std::vector<DeviceInfo> cuda_devices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    return {{.kind = "CUDA", .available = false, .detail = cudaGetErrorString(error)}};
  }
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp p{};
    cuda_check(cudaGetDeviceProperties(&p, i), "cudaGetDeviceProperties");
    devices.push_back({.kind = "CUDA",
                       .available = true,
                       .detail = "GPU " + std::to_string(i) + ": " + p.name + ", " +
                                 std::to_string(p.totalGlobalMem >> 30) + " GiB",
                       .compute_capability = 10 * p.major + p.minor,
                       .sizes = gpu_sizes(p, i)});
  }
  return devices;
}

std::unique_ptr<Ops> make_cuda_ops(const CudaOptions& options) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    // The driver distinguishes causes that the runtime reports as the same error.
    const std::string problem = find_gpus().problem;
    throw InputError("device: found \"cuda\", but " +
                     (problem.empty() ? cudaGetErrorString(error) : problem) +
                     "; or set \"cpu\" or \"auto\"");
  }
  if (options.index >= count) {
    throw InputError("device: found " + std::to_string(count) + (count == 1 ? " GPU" : " GPUs") +
                     " on this host, but at least " + std::to_string(options.index + 1) +
                     " workers; start at most one worker per GPU");
  }
  return std::make_unique<CudaOps>(options);
}

}  // namespace pfc
