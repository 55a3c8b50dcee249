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

/// Enqueues to = from, or to += from when `accumulate`. Both are matrices with the channels in the
/// last dimension and any activation type. Rows and channels that `from` does not have count as
/// zeros.
void copy_channels(CudaDevice& device, const Tensor& from, const Tensor& to, bool accumulate);

/// Enqueues numbers from a uniform distribution over [-1, 1), the same in every call. `to` is of
/// any activation type.
void fill_random(CudaDevice& device, const Tensor& to);

}  // namespace pfc
