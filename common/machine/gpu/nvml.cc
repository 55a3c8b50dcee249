#include "common/machine/gpu/nvml.h"

#include <array>

namespace pfc {

Nvml::Nvml(const std::string& library) : library_(library) {
  if (!library_.loaded()) {
    problem_ = "no NVML (" + library_.problem() + ")";
    return;
  }
  const Result result = call("nvmlInit_v2");
  initialised_ = result == kSuccess;
  if (!initialised_) problem_ = "nvmlInit_v2 returned error " + std::to_string(result);
}

Nvml::~Nvml() {
  if (initialised_) call("nvmlShutdown");
}

std::string Nvml::driver_version() const {
  std::array<char, 96> text{};  // the longest text of NVML is 80 characters
  const Result result =
      call("nvmlSystemGetDriverVersion", text.data(), static_cast<unsigned>(text.size() - 1));
  return result == kSuccess ? text.data() : "";
}

Nvml::Result Nvml::find(const std::string& pci_bus_id, Device*& device) const {
  return call("nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.c_str(), &device);
}

}  // namespace pfc
