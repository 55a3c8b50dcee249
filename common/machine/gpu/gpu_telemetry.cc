#include "common/machine/gpu/gpu_telemetry.h"

#include "common/machine/gpu/nvml.h"

namespace pfc {
namespace {

struct Utilisation {
  unsigned gpu = 0, memory = 0;  // percent
};
constexpr unsigned long long kThrottled =
    Nvml::kPowerLimit | Nvml::kHardware | Nvml::kHeat | Nvml::kHeatByHardware | Nvml::kPowerBrake;

}  // namespace

class GpuTelemetry::Library {
 public:
  explicit Library(const std::string& name) : nvml_(name) {}

  /// Returns why the GPU cannot be queried; empty on success.
  std::string open(const std::string& pci_bus_id) {
    if (!nvml_.problem().empty()) return nvml_.problem();
    const Nvml::Result found = nvml_.find(pci_bus_id, device_);
    if (found == Nvml::kSuccess) return {};
    return "NVML did not find the GPU " + pci_bus_id + " (error " + std::to_string(found) + ")";
  }

  /// Calls the function and returns the value that it wrote; nullopt on failure.
  template <typename Value, typename... Arguments>
  std::optional<Value> ask(const char* name, Arguments... arguments) const {
    Value value{};
    if (nvml_.call(name, device_, arguments..., &value) != Nvml::kSuccess) return {};
    return value;
  }

 private:
  const Nvml nvml_;
  Nvml::Device* device_ = nullptr;
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
  if (const auto memory = library_->ask<Nvml::Memory>("nvmlDeviceGetMemoryInfo")) {
    reading.memory_used = memory->used;
    reading.memory_total = memory->total;
  }
  if (const auto heat =
          library_->ask<unsigned>("nvmlDeviceGetTemperature", Nvml::kTemperatureOfGpu)) {
    reading.temperature_celsius = *heat;
  }
  if (const auto milliwatts = library_->ask<unsigned>("nvmlDeviceGetPowerUsage")) {
    reading.power_watts = *milliwatts / 1000.0;
  }
  // The name used by older drivers; newer drivers still accept it.
  if (const auto reasons =
          library_->ask<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons")) {
    reading.throttled = (*reasons & kThrottled) != 0;
  }
  return reading;
}

}  // namespace pfc
