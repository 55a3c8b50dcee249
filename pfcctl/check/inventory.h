// The lists of pfcctl check: GPUs and NCCL of this machine, libraries of this build. pfcctl does
// not link CUDA or NCCL; it loads them as a worker would.
#pragma once

#include <vector>

#include "kernels/device_info.h"

namespace pfc {

/// Returns every GPU, or one entry with the reason if there is none. Marks them available if this
/// build's pfc-worker can use GPUs.
std::vector<DeviceInfo> gpu_devices();

/// Returns the version of the NCCL that a worker would load, or why there is none.
DeviceInfo nccl();

/// Returns the version of each library: the loaded version if the library reports it, otherwise the
/// version at build time.
std::vector<LibraryInfo> library_versions();

}  // namespace pfc
