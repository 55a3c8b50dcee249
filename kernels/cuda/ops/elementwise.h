// What other families use of elementwise.cu.
#pragma once

#include "kernels/cuda/runtime/device.h"
#include "kernels/tensor.h"

namespace pfc {

/// to = from, or to += from: `to` is float32, `from` of any activation type. Enqueues.
void add_as_float32(CudaDevice& device, const Tensor& from, const Tensor& to, bool accumulate);

}  // namespace pfc
