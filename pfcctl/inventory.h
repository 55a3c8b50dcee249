// What pfcctl check lists: the GPUs and NCCL of this machine, and the libraries of this build.
// pfcctl links neither CUDA nor NCCL; it loads them to ask, as a worker would.
#pragma once

#include <vector>

#include "kernels/device_info.h"

namespace pfc {

/// Every GPU, or one entry that says why there is none. Available where this build's pfc-worker can
/// use GPUs.
std::vector<DeviceInfo> gpu_devices();

/// The version of the NCCL that a worker would load, or why there is none.
DeviceInfo nccl();

/// The version of each library: of the one loaded at run time where the library tells, otherwise of
/// the one that pfcctl was built with.
std::vector<LibraryInfo> library_versions();

}  // namespace pfc
