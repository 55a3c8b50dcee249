#include "common/machine/gpu_telemetry.h"

#include "common/machine/dynamic_library.h"

namespace pfc {
namespace {

// From nvml.h, which is not on every machine that builds pfc. NVML's interface stays compatible
// with programs of older releases: what changes gets another name ("_v2").
using Result = int;  // nvmlReturn_t
constexpr Result kSuccess = 0;
constexpr Result kNoFunction = 13;  // NVML_ERROR_FUNCTION_NOT_FOUND

struct Device;  // nvmlDevice_t is a pointer to it
struct Utilisation {
  unsigned gpu = 0, memory = 0;  // percent
};
struct Memory {
  unsigned long long total = 0, free = 0, used = 0;  // bytes
};
constexpr int kTemperatureOfGpu = 0;  // NVML_TEMPERATURE_GPU
// nvmlClocksEventReason: SwPowerCap, HwSlowdown, SwThermalSlowdown, HwThermalSlowdown and
// HwPowerBrakeSlowdown. Not that it is idle, or that somebody has set its clocks.
constexpr unsigned long long kThrottled = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

}  // namespace

class GpuTelemetry::Library {
 public:
  explicit Library(const std::string& name) : library_(name) {}
  ~Library() {
    if (initialised_) call("nvmlShutdown");
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// Why the GPU cannot be asked; empty: it can.
  std::string open(const std::string& pci_bus_id) {
    if (!library_.loaded()) return "no NVML (" + library_.problem() + ")";
    const Result started = call("nvmlInit_v2");
    initialised_ = started == kSuccess;
    if (!initialised_) return "nvmlInit_v2 says error " + std::to_string(started);
    const Result found = call("nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.c_str(), &device_);
    if (found == kSuccess) return {};
    return "NVML does not know the GPU " + pci_bus_id + " (error " + std::to_string(found) + ")";
  }

  /// The value that the function has written; empty where it has not.
  template <typename Value, typename... Arguments>
  std::optional<Value> ask(const char* name, Arguments... arguments) const {
    Value value{};
    if (call(name, device_, arguments..., &value) != kSuccess) return {};
    return value;
  }

 private:
  template <typename... Arguments>
  Result call(const char* name, Arguments... arguments) const {
    auto* const function = library_.find<Result(Arguments...)>(name);
    return function == nullptr ? kNoFunction : function(arguments...);
  }

  const DynamicLibrary library_;
  bool initialised_ = false;
  Device* device_ = nullptr;
};

GpuTelemetry::GpuTelemetry(const std::string& pci_bus_id, const std::string& library)
    : library_(std::make_unique<Library>(library)), problem_(library_->open(pci_bus_id)) {}

GpuTelemetry::~GpuTelemetry() = default;

GpuReading GpuTelemetry::read() const {
  GpuReading reading;
  if (!problem_.empty()) return reading;
  if (const auto used = library_->ask<Utilisation>("nvmlDeviceGetUtilizationRates")) {
    reading.utilisation = used->gpu / 100.0;
  }
  if (const auto memory = library_->ask<Memory>("nvmlDeviceGetMemoryInfo")) {
    reading.memory_used = memory->used;
    reading.memory_total = memory->total;
  }
  if (const auto heat = library_->ask<unsigned>("nvmlDeviceGetTemperature", kTemperatureOfGpu)) {
    reading.temperature_celsius = *heat;
  }
  if (const auto milliwatts = library_->ask<unsigned>("nvmlDeviceGetPowerUsage")) {
    reading.power_watts = *milliwatts / 1000.0;
  }
  // The name of older drivers, which newer ones have kept.
  if (const auto reasons =
          library_->ask<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons")) {
    reading.throttled = (*reasons & kThrottled) != 0;
  }
  return reading;
}

}  // namespace pfc
