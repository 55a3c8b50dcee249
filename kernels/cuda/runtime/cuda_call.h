// Converts errors of CUDA's runtime to exceptions.
#pragma once

#include <cuda_runtime.h>

namespace pfc {

/// Throws DeviceError unless `error` is cudaSuccess. The message names `what`, the call or the
/// kernel, and for common errors says what to do. An error inside a kernel is reported by a later
/// call, so `what` may not be the call that failed.
void cuda_check(cudaError_t error, const char* what);

}  // namespace pfc
