#include "worker/check/gpu_health.h"

#include <array>
#include <utility>

#include "common/machine/dynamic_library.h"

namespace pfc {
namespace {

// From nvml.h, whose interface is binary compatible with programs of older releases.
using Result = int;  // nvmlReturn_t
struct Device;       // nvmlDevice_t points to it
constexpr Result kSuccess = 0;
constexpr unsigned kClockSm = 1;  // NVML_CLOCK_SM
constexpr unsigned kTemperatureGpu = 0;
constexpr unsigned kUncorrected = 1;  // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr unsigned kVolatile = 0;     // NVML_VOLATILE_ECC: since the driver was loaded

struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};

/// nvmlClocksEventReasons: those that mean a fault or a limit, not an idle GPU or a setting.
constexpr std::array<std::pair<unsigned long long, const char*>, 4> kReasons{{
    {0x08, "a slowdown by hardware"},
    {0x20, "heat"},
    {0x40, "heat, by hardware"},
    {0x80, "a power brake"},
}};

class Nvml {
 public:
  explicit Nvml(const std::string& name) : library_(name) {
    if (!library_.loaded()) {
      problem_ = "no NVML (" + library_.problem() + ")";
    } else if (const Result result = call("nvmlInit_v2"); result != kSuccess) {
      problem_ = "NVML fails: nvmlInit_v2 says " + std::to_string(result);
    }
  }
  ~Nvml() {
    if (problem_.empty()) call("nvmlShutdown");
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] const std::string& problem() const { return problem_; }

  template <typename... Arguments>
  Result call(const char* name, Arguments... arguments) const {
    constexpr Result kNoFunction = 13;  // NVML_ERROR_FUNCTION_NOT_FOUND
    auto* const function = library_.find<Result(Arguments...)>(name);
    return function == nullptr ? kNoFunction : function(arguments...);
  }

 private:
  const DynamicLibrary library_;
  std::string problem_;
};

std::string text_of(const std::array<char, 96>& characters) {
  std::string text(characters.data());
  for (char& c : text) c = c < ' ' || c > '~' ? '?' : c;
  return text;
}

GpuHealth ask(const Nvml& nvml, Device* device, const std::string& pci) {
  GpuHealth gpu{.name = "GPU " + pci, .memory_errors = {}, .throttled_by = {}};
  std::array<char, 96> name{};
  if (nvml.call("nvmlDeviceGetName", device, name.data(), static_cast<unsigned>(name.size() - 1)) ==
      kSuccess) {
    gpu.name += " (" + text_of(name) + ")";
  }
  if (Memory memory{}; nvml.call("nvmlDeviceGetMemoryInfo", device, &memory) == kSuccess) {
    gpu.free_bytes = memory.free;
    gpu.total_bytes = memory.total;
  }
  if (unsigned long long errors = 0; nvml.call("nvmlDeviceGetTotalEccErrors", device, kUncorrected,
                                               kVolatile, &errors) == kSuccess) {
    gpu.memory_errors = errors;
  }
  nvml.call("nvmlDeviceGetClockInfo", device, kClockSm, &gpu.clock_mhz);
  nvml.call("nvmlDeviceGetMaxClockInfo", device, kClockSm, &gpu.highest_clock_mhz);
  nvml.call("nvmlDeviceGetTemperature", device, kTemperatureGpu, &gpu.celsius);
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
  std::array<char, 96> driver{};
  if (nvml.call("nvmlSystemGetDriverVersion", driver.data(),
                static_cast<unsigned>(driver.size() - 1)) == kSuccess) {
    report.driver = text_of(driver);
  }
  for (const std::string& pci : pci_bus_ids) {
    Device* device = nullptr;
    if (nvml.call("nvmlDeviceGetHandleByPciBusId_v2", pci.c_str(), &device) != kSuccess) continue;
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
