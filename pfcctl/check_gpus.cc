#include "pfcctl/check_gpus.h"

#include "common/byte_size.h"
#include "common/machine/dynamic_library.h"
#include "common/machine/gpus.h"
#include "common/version.h"

namespace pfc {
namespace {

/// What is found is of no use to a build without CUDA: said first, as it is the nearer cause.
std::string found(const std::string& detail) {
  return built_with_cuda() ? detail : "built without CUDA; " + detail;
}

/// 22809: 2.28.9, as nccl.h writes versions from 2.9 on.
std::string nccl_version_text(int code) {
  return std::to_string(code / 10'000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

}  // namespace

std::vector<DeviceInfo> gpu_devices() {
  const GpuSearch search = find_gpus();
  if (search.gpus.empty()) {
    return {{.kind = "CUDA", .available = false, .detail = found(search.problem)}};
  }
  std::vector<DeviceInfo> devices;
  devices.reserve(search.gpus.size());
  for (const Gpu& gpu : search.gpus) {
    devices.push_back(
        {.kind = "cuda:" + std::to_string(gpu.index),
         .available = built_with_cuda(),
         .detail = found(gpu.name + ", " + byte_size_text(gpu.memory_bytes) +
                         ", compute capability " + std::to_string(gpu.capability_major) + "." +
                         std::to_string(gpu.capability_minor) + ", PCI " + gpu.pci_bus_id)});
  }
  return devices;
}

DeviceInfo nccl() {
  const DynamicLibrary library("libnccl.so.2");
  DeviceInfo info{.kind = "NCCL"};
  int code = 0;
  if (!library.loaded()) {
    info.detail = found(library.problem());
  } else if (auto* const get_version = library.find<int(int*)>("ncclGetVersion");
             get_version == nullptr || get_version(&code) != 0) {
    info.detail = found("libnccl.so.2 does not tell its version");
  } else {
    info.available = built_with_cuda();
    info.detail = found(nccl_version_text(code));
  }
  return info;
}

}  // namespace pfc
