// Lists the GPUs that a worker on this machine would see. Queries the driver at run time, because
// no program but pfc-worker links CUDA.
//
// Uses the driver (libcuda.so.1), not NVML, because the answer decides how many workers start. The
// driver obeys CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, counts MIG slices as CUDA does, and
// numbers GPUs like the worker's local rank. NVML lists all installed GPUs in another order. Only
// initialising the driver finds problems that would stop a worker (a version that does not match
// the kernel module, a fabric manager that is not running). This creates no context, so it uses no
// GPU memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pfc {

/// Sizes of a GPU. Kernels divide their work accordingly. The defaults are an H100's.
struct GpuSizes {
  std::int64_t l2_bytes = std::int64_t{50} << 20;  ///< size of the L2 cache
  int multiprocessors = 132;
  std::int64_t memory_bandwidth = 3'350'000'000'000;  ///< bytes a second; 0: unknown
};

/// Returns the bandwidth of a double-data-rate memory, in bytes a second.
constexpr std::int64_t memory_bandwidth(std::int64_t clock_khz, std::int64_t bus_bits) {
  return 2 * clock_khz * 1000 * (bus_bits / 8);
}

struct Gpu {
  int index = 0;                   ///< CUDA's index: the local rank of the worker that uses it
  std::string name;                ///< "NVIDIA H100 80GB HBM3"
  std::uint64_t memory_bytes = 0;  ///< total, used or not
  int capability_major = 0;        ///< 9 for compute capability 9.0
  int capability_minor = 0;
  GpuSizes sizes;
  std::string pci_bus_id;  ///< "0000:1B:00.0", as in nvidia-smi and the kernel log
};

/// Returns text such as "cuda:0 NVIDIA H100 80GB HBM3 (79.6 GiB)".
std::string describe(const Gpu& gpu);

/// Result of a search. Text is printable ASCII, whatever the driver or environment contains.
struct GpuSearch {
  std::vector<Gpu> gpus;
  /// Why there is no GPU and what to do, in one sentence; empty if and only if there are GPUs.
  /// Distinguishes: no driver; a driver older than CUDA 13; a driver that sees no GPU (and the
  /// CUDA_VISIBLE_DEVICES that may hide them); a failing driver (the call and its error).
  std::string problem;
};

/// Loads and queries the driver; may take seconds if the GPUs are asleep. Never throws if
/// something is absent or fails. The driver reads the environment once per process: use a new
/// process to query again. Tests pass another library with the driver's entry points as `driver`.
GpuSearch find_gpus(const std::string& driver = "libcuda.so.1");

/// Returns find_gpus(), or no GPUs if pfc-worker was built without CUDA.
GpuSearch usable_gpus();

}  // namespace pfc
