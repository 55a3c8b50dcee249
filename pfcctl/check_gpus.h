// GPUs and NCCL as a worker on this machine would find them, asked at run time: pfcctl links
// neither.
#pragma once

#include <vector>

#include "kernels/device_info.h"

namespace pfc {

/// Every GPU, or one entry that says why there is none. Available where this build's pfc-worker
/// computes on GPUs.
std::vector<DeviceInfo> gpu_devices();

/// The version of the NCCL that would be loaded, or why there is none.
DeviceInfo nccl();

}  // namespace pfc
