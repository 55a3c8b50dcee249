// NVIDIA's management library (NVML), loaded at run time: no program links it.
#pragma once

#include <string>

#include "common/machine/dynamic_library.h"

namespace pfc {

/// Declarations copied from nvml.h, which is not on every machine that builds pfc. NVML stays
/// compatible with programs of older releases: a changed function gets a new name ("_v2").
class Nvml {
 public:
  using Result = int;  ///< nvmlReturn_t
  struct Device;       ///< nvmlDevice_t is a pointer to it
  struct Memory {
    unsigned long long total = 0, free = 0, used = 0;  ///< bytes
  };
  static constexpr Result kSuccess = 0;
  static constexpr unsigned kTemperatureOfGpu = 0;  ///< NVML_TEMPERATURE_GPU

  /// The flags of nvmlClocksEventReasons that mean a fault or a limit. Does not include idle, or
  /// clocks that a user has set.
  enum Reason : unsigned long long {
    kPowerLimit = 0x04,
    kHardware = 0x08,
    kHeat = 0x20,
    kHeatByHardware = 0x40,
    kPowerBrake = 0x80
  };

  /// Never throws if something is absent or fails; problem() then returns the reason.
  explicit Nvml(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] const std::string& problem() const { return problem_; }  ///< empty on success

  /// Calls a function. Returns an error if this library does not have it.
  template <typename... Arguments>
  Result call(const char* name, Arguments... arguments) const {
    constexpr Result kNoFunction = 13;  // NVML_ERROR_FUNCTION_NOT_FOUND
    auto* const function = library_.find<Result(Arguments...)>(name);
    return function == nullptr ? kNoFunction : function(arguments...);
  }
  /// Returns the driver's version, such as "580.65.06"; empty if unknown.
  [[nodiscard]] std::string driver_version() const;
  /// Finds the GPU with this PCI address ("0000:1B:00.0"). REQUIRES: `device` is nullptr; it stays
  /// so on error.
  Result find(const std::string& pci_bus_id, Device*& device) const;

 private:
  const DynamicLibrary library_;
  bool initialised_ = false;
  std::string problem_;
};

}  // namespace pfc
