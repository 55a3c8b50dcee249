// The processor of this machine and the libraries that its kernels use, as `pfcctl check` shows
// them.
#pragma once

#include <vector>

#include "kernels/device_info.h"

namespace pfc {

/// Model, usable cores, instruction set and memory.
DeviceInfo cpu_device();

/// Name and version of each library that the CPU kernels call, as loaded at run time.
std::vector<LibraryInfo> kernel_libraries();

}  // namespace pfc
