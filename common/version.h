// Which pfc this is: programs of one cluster must be of the same version.
#pragma once

namespace pfc {

/// "0.1.0": the version in the top CMakeLists.txt.
const char* version();

/// "13.0.88": the CUDA that this build's pfc-worker computes with; empty: it was built without
/// CUDA.
const char* cuda_version();
bool built_with_cuda();

}  // namespace pfc
