// Adds what a library left in a narrow type to a float32 tensor.
#pragma once

#include "kernels/cuda/runtime/device.h"
#include "kernels/tensor.h"

namespace pfc {

/// to = from, or to += from: `to` is float32, `from` of any activation type. Enqueues.
void add_as_float32(CudaDevice& device, const Tensor& from, const Tensor& to, bool accumulate);

}  // namespace pfc
