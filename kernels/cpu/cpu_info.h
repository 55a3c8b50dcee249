// Describes this machine's processor and the libraries of its kernels, for `pfcctl check`.
#pragma once

#include <vector>

#include "kernels/device_info.h"

namespace pfc {

/// Returns model, usable cores, instruction set and memory.
DeviceInfo cpu_device();

/// Returns name and version of each library that the CPU kernels call, as loaded at run time.
std::vector<LibraryInfo> kernel_libraries();

}  // namespace pfc
