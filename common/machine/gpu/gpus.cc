#include "common/machine/gpu/gpus.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "common/byte_size.h"
#include "common/error.h"
#include "common/machine/dynamic_library.h"
#include "common/version.h"

namespace pfc {
namespace {

// Copied from cuda.h, which is not on every machine that builds pfc. These never change: the
// driver is binary compatible with programs of all older releases.
using Result = int;  // CUresult
using Device = int;  // CUdevice
constexpr Result kSuccess = 0;
constexpr Result kNoDevice = 100;
constexpr int kMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
constexpr int kMemoryClock = 36;      // CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, in kHz
constexpr int kMemoryBusBits = 37;    // CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH
constexpr int kL2Bytes = 38;          // CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
constexpr int kCapabilityMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kCapabilityMinor = 76;

constexpr int kNeededVersion = 13'000;  // 1000 major + 10 minor
constexpr const char* kInstall = "install NVIDIA's driver R580 or newer";
constexpr int kMostGpus = 1'024;  // a larger value is not a valid count

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

/// The driver's entry points. Every failure throws DeviceError with a message for users.
class Driver {
 public:
  explicit Driver(const std::string& name) : library_(name) {
    if (!library_.loaded()) {
      throw DeviceError("no CUDA driver (" + library_.problem() + "): " + kInstall);
    }
  }

  [[nodiscard]] int version() const {
    int version = 0;
    require("cuDriverGetVersion", call("cuDriverGetVersion", &version));
    return version;
  }

  /// Returns 0 if there is no GPU, or none is visible.
  [[nodiscard]] int count() const {
    const Result started = call("cuInit", 0U);
    if (started == kNoDevice) return 0;
    require("cuInit", started);
    int count = 0;
    require("cuDeviceGetCount", call("cuDeviceGetCount", &count));
    if (count < 0 || count > kMostGpus) {
      throw DeviceError("the CUDA driver failed: it reported " + std::to_string(count) + " GPUs");
    }
    return count;
  }

  [[nodiscard]] Gpu gpu(int index) const {
    Device device = 0;
    require("cuDeviceGet", call("cuDeviceGet", &device, index));
    std::array<char, 256> name{}, pci{};
    const auto size = static_cast<int>(name.size()) - 1;
    std::size_t memory = 0;
    int l2_bytes = 0, clock = 0, bus = 0;
    Gpu gpu{.index = index};
    require("cuDeviceGetName", call("cuDeviceGetName", name.data(), size, device));
    require("cuDeviceTotalMem", call("cuDeviceTotalMem_v2", &memory, device));
    require("cuDeviceGetPCIBusId", call("cuDeviceGetPCIBusId", pci.data(), size, device));
    for (const auto& [attribute, value] :
         {std::pair{kCapabilityMajor, &gpu.capability_major},
          std::pair{kCapabilityMinor, &gpu.capability_minor}, std::pair{kL2Bytes, &l2_bytes},
          std::pair{kMultiprocessors, &gpu.sizes.multiprocessors}, std::pair{kMemoryClock, &clock},
          std::pair{kMemoryBusBits, &bus}}) {
      require("cuDeviceGetAttribute", call("cuDeviceGetAttribute", value, attribute, device));
    }
    gpu.sizes.l2_bytes = l2_bytes;
    gpu.sizes.memory_bandwidth = memory_bandwidth(clock, bus);
    gpu.name = printable(name.data());
    gpu.memory_bytes = memory;
    gpu.pci_bus_id = printable(pci.data());
    return gpu;
  }

 private:
  template <typename... Arguments>
  Result call(const char* name, Arguments... arguments) const {
    auto* const function = library_.find<Result(Arguments...)>(name);
    if (function == nullptr) {
      throw DeviceError(std::string("no CUDA driver (the library lacks ") + name +
                        "): " + kInstall);
    }
    return function(arguments...);
  }

  void require(const char* name, Result result) const {
    if (result == kSuccess) return;
    const char* error = nullptr;
    call("cuGetErrorName", result, &error);
    throw DeviceError(std::string("the CUDA driver failed: ") + name + " returned " +
                      (error == nullptr ? "error" : error) + " (" + std::to_string(result) +
                      "); nvidia-smi and the kernel log may show the cause");
  }

  DynamicLibrary library_;
};

std::string none_visible(int version) {
  std::string problem = "no GPU: the CUDA " + version_text(version) + " driver found none";
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read only
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return problem;
  return problem + "; CUDA_VISIBLE_DEVICES is \"" + visible +
         "\": unset it, or list GPUs of this machine";
}

std::vector<Gpu> ask(const Driver& driver) {
  const int version = driver.version();
  if (version < kNeededVersion) {
    throw DeviceError("the CUDA driver is too old: found CUDA " + version_text(version) +
                      ", expected " + version_text(kNeededVersion) + " or newer: " + kInstall);
  }
  const int count = driver.count();
  if (count == 0) throw DeviceError(none_visible(version));
  std::vector<Gpu> gpus;
  gpus.reserve(static_cast<std::size_t>(count));
  for (int index = 0; index < count; ++index) gpus.push_back(driver.gpu(index));
  return gpus;
}

}  // namespace

std::string describe(const Gpu& gpu) {
  return "cuda:" + std::to_string(gpu.index) + " " + gpu.name + " (" +
         byte_size_text(gpu.memory_bytes) + ")";
}

GpuSearch find_gpus(const std::string& driver) {
  try {
    return {.gpus = ask(Driver(driver)), .problem = {}};
  } catch (const DeviceError& why) {
    return {.gpus = {}, .problem = printable(why.what())};
  }
}

GpuSearch usable_gpus() {
  if (built_with_cuda()) return find_gpus();
  return {.gpus = {}, .problem = "pfc-worker was built without CUDA"};
}

}  // namespace pfc
