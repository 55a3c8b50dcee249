// How a GPU fares, asked of NVIDIA's management library (NVML) at run time: no program links it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace pfc {

/// What a GPU cannot tell is empty: MIG slices have no utilisation, some cards no power.
struct GpuReading {
  std::optional<double> utilisation;          ///< part of the last moment in which a kernel ran
  std::optional<std::uint64_t> memory_used;   ///< bytes, by any process
  std::optional<std::uint64_t> memory_total;  ///< bytes
  std::optional<double> temperature_celsius;
  std::optional<double> power_watts;
  /// Its clock is lower than it could be, because of heat or power, or because hardware asks for
  /// it.
  std::optional<bool> throttled;
};

/// One GPU. Not thread-safe.
class GpuTelemetry {
 public:
  /// `pci_bus_id` as Gpu::pci_bus_id. Never throws for what is absent or fails: problem() says why
  /// nothing can be read. `library` is for tests: another one with NVML's entry points.
  explicit GpuTelemetry(const std::string& pci_bus_id,
                        const std::string& library = "libnvidia-ml.so.1");
  ~GpuTelemetry();
  GpuTelemetry(const GpuTelemetry&) = delete;
  GpuTelemetry& operator=(const GpuTelemetry&) = delete;

  [[nodiscard]] const std::string& problem() const { return problem_; }  ///< empty: none
  /// Takes a few milliseconds at most where the driver works.
  [[nodiscard]] GpuReading read() const;

 private:
  class Library;
  std::unique_ptr<Library> library_;
  std::string problem_;
};

}  // namespace pfc
