#include "worker/check/gpu_health.h"

#include <array>
#include <utility>

#include "common/machine/dynamic_library.h"
#include "common/machine/gpu/nvml.h"

namespace pfc {
namespace {

constexpr unsigned kClockSm = 1;      // NVML_CLOCK_SM
constexpr unsigned kUncorrected = 1;  // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr unsigned kVolatile = 0;     // NVML_VOLATILE_ECC: since the driver was loaded

/// Reasons for throttling that are reported. A power limit is not among them, because most GPUs
/// reach it under load.
constexpr std::array<std::pair<unsigned long long, const char*>, 4> kReasons{{
    {Nvml::kHardware, "a slowdown by hardware"},
    {Nvml::kHeat, "heat"},
    {Nvml::kHeatByHardware, "heat, by hardware"},
    {Nvml::kPowerBrake, "a power brake"},
}};

std::string text_before_nul(const std::array<char, 96>& characters) {
  std::string text(characters.data());
  for (char& c : text) c = c < ' ' || c > '~' ? '?' : c;
  return text;
}

GpuHealth ask(const Nvml& nvml, Nvml::Device* device, const std::string& pci) {
  GpuHealth gpu{.name = "GPU " + pci, .memory_errors = {}, .throttled_by = {}};
  std::array<char, 96> name{};
  if (nvml.call("nvmlDeviceGetName", device, name.data(), static_cast<unsigned>(name.size() - 1)) ==
      Nvml::kSuccess) {
    gpu.name += " (" + text_before_nul(name) + ")";
  }
  if (Nvml::Memory memory;
      nvml.call("nvmlDeviceGetMemoryInfo", device, &memory) == Nvml::kSuccess) {
    gpu.free_bytes = memory.free;
    gpu.total_bytes = memory.total;
  }
  if (unsigned long long errors = 0; nvml.call("nvmlDeviceGetTotalEccErrors", device, kUncorrected,
                                               kVolatile, &errors) == Nvml::kSuccess) {
    gpu.memory_errors = errors;
  }
  nvml.call("nvmlDeviceGetClockInfo", device, kClockSm, &gpu.clock_mhz);
  nvml.call("nvmlDeviceGetMaxClockInfo", device, kClockSm, &gpu.highest_clock_mhz);
  nvml.call("nvmlDeviceGetTemperature", device, Nvml::kTemperatureOfGpu, &gpu.celsius);
  unsigned long long reasons = 0;
  nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &reasons);
  for (const auto& [bit, reason] : kReasons) {
    if ((reasons & bit) == 0) continue;
    gpu.throttled_by += (gpu.throttled_by.empty() ? "" : ", ") + std::string(reason);
  }
  return gpu;
}

}  // namespace

GpuHealthReport gpu_health(const std::vector<std::string>& pci_bus_ids,
                           const std::string& library) {
  const Nvml nvml(library);
  GpuHealthReport report{.driver = {}, .gpus = {}, .problem = nvml.problem()};
  if (!report.problem.empty()) return report;
  report.driver = nvml.driver_version();
  for (const std::string& pci : pci_bus_ids) {
    Nvml::Device* device = nullptr;
    if (nvml.find(pci, device) != Nvml::kSuccess) continue;
    report.gpus.push_back(ask(nvml, device, pci));
  }
  return report;
}

std::string nccl_version(const std::string& library) {
  const DynamicLibrary nccl(library);
  auto* const get = nccl.find<int(int*)>("ncclGetVersion");
  int code = 0;
  if (get == nullptr || get(&code) != 0) return {};
  return std::to_string(code / 10'000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

}  // namespace pfc
