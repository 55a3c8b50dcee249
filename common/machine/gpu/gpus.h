// The GPUs that a worker on this machine would see, asked of the driver at run time: no program but
// pfc-worker links CUDA.
//
// The driver (libcuda.so.1) is asked and not NVML, because the answer decides how many workers
// start: the driver obeys CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, counts MIG slices as CUDA
// does, and numbers GPUs as the worker's local rank will; NVML lists what is plugged in, in another
// order. Only the driver's own initialisation finds what would stop a worker, too (a version that
// does not match the kernel's module, a fabric manager that does not run). It makes no context, so
// it takes no memory of a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pfc {

struct Gpu {
  int index = 0;                   ///< CUDA's: the local rank of the worker that gets it
  std::string name;                ///< "NVIDIA H100 80GB HBM3"
  std::uint64_t memory_bytes = 0;  ///< all of it, used or not
  int capability_major = 0;        ///< compute capability 9.0
  int capability_minor = 0;
  int l2_bytes = 0;  ///< size of the L2 cache
  int multiprocessors = 0;
  std::string pci_bus_id;  ///< "0000:1B:00.0", as nvidia-smi and the kernel log have it
};

/// "cuda:0 NVIDIA H100 80GB HBM3 (79.6 GiB)"
std::string describe(const Gpu& gpu);

/// All text is printable ASCII, whatever a driver or the environment holds.
struct GpuSearch {
  std::vector<Gpu> gpus;
  /// Why there is none, in one sentence that says what to do; empty exactly where there are some.
  /// It tells apart: no driver; a driver older than CUDA 13; a driver that sees no GPU (and the
  /// CUDA_VISIBLE_DEVICES that may hide them); a driver that fails (the call and its error).
  std::string problem;
};

/// Loads the driver and asks it; takes up to seconds where it has to wake the GPUs. Never throws
/// for what is absent or fails. The driver reads the environment once in a process: ask again in a
/// new one. `driver` is for tests: another library with the driver's entry points.
GpuSearch find_gpus(const std::string& driver = "libcuda.so.1");

/// The GPUs that the workers of this build can compute on: find_gpus(), and none where pfc-worker
/// was built without CUDA.
GpuSearch usable_gpus();

}  // namespace pfc
