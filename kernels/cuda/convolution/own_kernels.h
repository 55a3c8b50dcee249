// Convolutions with one channel a group by own kernels, NHWC: cuDNN's are made for many, and what
// these cost is memory traffic.
#pragma once

#include <memory>

#include "kernels/cuda/runtime/device.h"
#include "kernels/ops.h"

namespace pfc {

/// One channel a group in and out, any stride and padding, kernels of up to 7 x 7.
bool depthwise_supports(const Conv2dShape& shape);

/// Sums in float32, dw over blocks in float64; the same bits every time. The device is borrowed.
std::unique_ptr<Conv2d> make_depthwise_conv2d(CudaDevice& device, const Conv2dShape& shape);

/// to = from, or to += from: `to` is float32, `from` of any activation type. Enqueues.
void add_as_float32(CudaDevice& device, const Tensor& from, const Tensor& to, bool accumulate);

}  // namespace pfc
