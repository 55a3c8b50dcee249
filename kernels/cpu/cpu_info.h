// This machine's processor, and the libraries behind its kernels: for `pfcctl check`.
#pragma once

#include <vector>

#include "kernels/device_info.h"

namespace pfc {

/// Model, usable cores, instruction set and memory.
DeviceInfo cpu_device();

/// Name and version of each library that the CPU kernels call, as found at run time.
std::vector<LibraryInfo> kernel_libraries();

}  // namespace pfc
