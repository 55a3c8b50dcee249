// Reads GPU utilisation, memory, temperature, power and throttling from NVIDIA's management
// library (NVML), which is loaded at run time: no program links it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace pfc {

/// A GPU need not report every value: MIG slices have no utilisation, some cards no power.
struct GpuReading {
  std::optional<double> utilisation;          ///< fraction of the time with a running kernel
  std::optional<std::uint64_t> memory_used;   ///< bytes, by any process
  std::optional<std::uint64_t> memory_total;  ///< bytes
  std::optional<double> temperature_celsius;
  std::optional<double> power_watts;
  /// Whether heat, power or a hardware signal has lowered the clock.
  std::optional<bool> throttled;
};

/// One GPU. Not thread-safe.
class GpuTelemetry {
 public:
  /// `pci_bus_id` as in Gpu::pci_bus_id. Never throws if something is absent or fails; problem()
  /// then returns the reason. Tests pass another `library` with NVML's entry points.
  explicit GpuTelemetry(const std::string& pci_bus_id,
                        const std::string& library = "libnvidia-ml.so.1");
  ~GpuTelemetry();
  GpuTelemetry(const GpuTelemetry&) = delete;
  GpuTelemetry& operator=(const GpuTelemetry&) = delete;

  [[nodiscard]] const std::string& problem() const { return problem_; }  ///< empty on success
  /// Takes a few milliseconds at most if the driver works.
  [[nodiscard]] GpuReading read() const;

 private:
  class Library;
  std::unique_ptr<Library> library_;
  std::string problem_;
};

}  // namespace pfc
