// What NVIDIA's management library (NVML) tells of the GPUs of this machine: their memory, errors,
// clocks, and what holds them back. Loaded at run time; no program links it.
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
  /// Errors of its memory that could not be corrected, since the driver was loaded; none: it has no
  /// ECC, or it is off.
  std::optional<std::uint64_t> memory_errors;
  unsigned clock_mhz = 0;  ///< of its multiprocessors, now
  unsigned highest_clock_mhz = 0;
  unsigned celsius = 0;
  /// What makes its clock lower than the driver wants, although it works: "heat", "a power brake";
  /// empty: nothing. A clock that is low because the GPU is idle is not meant.
  std::string throttled_by;
};

struct GpuHealthReport {
  std::string driver;  ///< "580.65.06"
  std::vector<GpuHealth> gpus;
  std::string problem;  ///< why nothing is known, in one line; empty otherwise
};

/// Asks about the GPUs with these PCI addresses ("0000:1B:00.0"). Never throws for what is absent
/// or fails: what a GPU does not tell is left out. `library` is for tests.
GpuHealthReport gpu_health(const std::vector<std::string>& pci_bus_ids,
                           const std::string& library = "libnvidia-ml.so.1");

/// The version of the NCCL that a worker would load: "2.28.9"; empty: there is none.
std::string nccl_version(const std::string& library = "libnccl.so.2");

}  // namespace pfc
