// The versions of the libraries that pfc is built on.
#pragma once

#include <vector>

#include "kernels/device_info.h"

namespace pfc {

/// As found at run time where the library tells, otherwise as built against.
std::vector<LibraryInfo> library_versions();

}  // namespace pfc
