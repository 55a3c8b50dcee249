#include "kernels/cuda/runtime/cuda_call.h"

#include <string>

#include "common/error.h"

namespace pfc {
namespace {

const char* advice(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return ": the GPU's memory is full; check whether other programs use this GPU, and what the "
             "job needs (`pfcctl plan`)";
    case cudaErrorInsufficientDriver:
      return ": install a driver for CUDA 13 (R580 or newer)";
    default:
      return "";
  }
}

}  // namespace

void cuda_check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw DeviceError(std::string("CUDA: ") + what + " failed with " + cudaGetErrorName(error) +
                    " (" + cudaGetErrorString(error) + ")" + advice(error));
}

}  // namespace pfc
