// Reads the health of this machine's GPUs from NVIDIA's management library (NVML): memory, errors,
// clocks, and reasons for throttling. NVML is loaded at run time; no program links it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pfc {

struct GpuHealth {
  std::string name;  ///< "GPU 0000:1B:00.0 (NVIDIA H100 80GB HBM3)"
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  /// Uncorrectable memory errors since the driver was loaded. Empty without ECC.
  std::optional<std::uint64_t> memory_errors;
  unsigned clock_mhz = 0;  ///< current clock of its multiprocessors
  unsigned highest_clock_mhz = 0;
  unsigned celsius = 0;
  /// Why a busy GPU's clock is lower than the driver wants: "heat", "a power brake". Empty if the
  /// clock is not limited, or low only because the GPU is idle.
  std::string throttled_by;
};

struct GpuHealthReport {
  std::string driver;  ///< "580.65.06"
  std::vector<GpuHealth> gpus;
  std::string problem;  ///< why nothing is known, in one line; empty on success
};

/// Queries the GPUs with these PCI addresses ("0000:1B:00.0"). Does not throw if a library or a GPU
/// is absent, or a query fails. Values that a GPU does not report are left out. Tests pass another
/// `library`.
GpuHealthReport gpu_health(const std::vector<std::string>& pci_bus_ids,
                           const std::string& library = "libnvidia-ml.so.1");

/// Returns the version of the NCCL that a worker would load ("2.28.9"); empty if none.
std::string nccl_version(const std::string& library = "libnccl.so.2");

}  // namespace pfc
