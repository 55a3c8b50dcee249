// Which pfc this is: programs of one cluster must be of the same version.
#pragma once

namespace pfc {

/// "0.1.0": the version in the top CMakeLists.txt.
const char* version();

}  // namespace pfc
