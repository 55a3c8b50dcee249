// Our own kernels that conv2d.cc uses in addition to cuDNN; nvcc compiles them.
#pragma once

#include <memory>

#include "kernels/cuda/runtime/device.h"
#include "kernels/ops.h"

namespace pfc {

/// Returns true for one input and one output channel per group, and kernels of 3, 5 or 7, with any
/// stride and padding. Such convolutions are memory-bound, while cuDNN's kernels are made for
/// groups of many channels.
bool depthwise_supports(const Conv2dShape& shape);

/// Makes a depthwise convolution, NHWC. Sums are float32; dw is summed over blocks in float64. The
/// result is bit-identical every time. Borrows the device. REQUIRES: depthwise_supports(shape).
std::unique_ptr<Conv2d> make_depthwise_conv2d(CudaDevice& device, const Conv2dShape& shape);

/// Enqueues to = from, or to += from with `accumulate`. Both are matrices with the channels in the
/// last dimension and any activation type. If `to` has more rows or channels than `from`, the
/// missing numbers count as zeros.
void copy_channels(CudaDevice& device, const Tensor& from, const Tensor& to, bool accumulate);

/// Enqueues filling `to`, of any activation type, with uniform numbers in [-1, 1), the same in
/// every call.
void fill_random(CudaDevice& device, const Tensor& to);

}  // namespace pfc
