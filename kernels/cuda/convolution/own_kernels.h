// What conv2d.cc uses beside cuDNN: kernels of our own, which nvcc compiles.
#pragma once

#include <memory>

#include "kernels/cuda/runtime/device.h"
#include "kernels/ops.h"

namespace pfc {

/// True for one input and one output channel in each group, and kernels of 3, 5 or 7; any stride
/// and padding. Such convolutions are bound by memory traffic, and cuDNN's kernels are made for
/// groups of many channels.
bool depthwise_supports(const Conv2dShape& shape);

/// A depthwise convolution, NHWC. Sums are float32; dw is summed over blocks in float64. The result
/// has the same bits every time. Borrows the device. REQUIRES: depthwise_supports(shape).
std::unique_ptr<Conv2d> make_depthwise_conv2d(CudaDevice& device, const Conv2dShape& shape);

/// Enqueues to = from, or to += from when `accumulate`. `to` is float32, `from` of any activation
/// type.
void add_as_float32(CudaDevice& device, const Tensor& from, const Tensor& to, bool accumulate);

}  // namespace pfc
