// The version of pfc. All programs of a cluster must have the same version.
#pragma once

namespace pfc {

/// Returns the version in the top CMakeLists.txt, such as "0.1.0".
const char* version();

/// Returns the CUDA version of this build's pfc-worker ("13.0.88"); empty without CUDA.
const char* cuda_version();
bool built_with_cuda();

}  // namespace pfc
