#include "pfcctl/check/inventory.h"

#include <gloo/config.h>
#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>
#include <openssl/crypto.h>
#include <png.h>
#include <spdlog/version.h>
#include <webp/decode.h>

#include <boost/version.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "common/byte_size.h"
#include "common/machine/dynamic_library.h"
#include "common/machine/gpu/gpus.h"
#include "common/version.h"
#include "kernels/cpu/cpu_info.h"

namespace pfc {
namespace {

/// "built without CUDA" comes first, because such a build cannot use the GPUs that were found.
std::string found(const std::string& detail) {
  return built_with_cuda() ? detail : "built without CUDA; " + detail;
}

/// Returns "2.28.9" for 22809, nccl.h's encoding since version 2.9.
std::string nccl_version_text(int code) {
  return std::to_string(code / 10'000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

std::string dotted(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
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
    info.detail = found("libnccl.so.2 does not report its version");
  } else {
    info.available = built_with_cuda();
    info.detail = found(nccl_version_text(code));
  }
  return info;
}

std::vector<LibraryInfo> library_versions() {
  std::vector<LibraryInfo> all = kernel_libraries();
  const std::string openssl = OpenSSL_version(OPENSSL_VERSION_STRING);
  all.insert(
      all.end(),
      {{"Gloo", dotted(GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH)},
       {"gRPC", grpc::Version()},
       {"Protobuf", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)},
       {"libjpeg-turbo", PFC_JPEG_TURBO_VERSION},
       {"libwebp", dotted(WebPGetDecoderVersion() >> 16, WebPGetDecoderVersion() >> 8 & 0xff,
                          WebPGetDecoderVersion() & 0xff)},
       {"libpng", png_get_libpng_ver(nullptr)},
       {"OpenSSL", openssl},
       {"Boost", dotted(BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100)},
       {"nlohmann/json", dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                NLOHMANN_JSON_VERSION_PATCH)},
       {"spdlog", dotted(SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)},
       {"prometheus-cpp", PFC_PROMETHEUS_VERSION}});
  return all;
}

}  // namespace pfc
