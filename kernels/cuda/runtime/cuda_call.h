// What CUDA's runtime says becomes a DeviceError that names the GPU, the call and what to do.
#pragma once

#include <cuda_runtime.h>

namespace pfc {

/// `what`: the call or kernel, for the message. Kernels report with the next call that waits, so it
/// need not be the one that failed.
void cuda_check(cudaError_t error, const char* what);

}  // namespace pfc
