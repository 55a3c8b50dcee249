// Convolutions through cuDNN, NHWC.
#pragma once

#include <memory>

#include "kernels/cuda/libraries/algorithm_cache.h"
#include "kernels/cuda/libraries/cudnn.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/ops.h"

namespace pfc {

/// What the convolutions of a device share; lives as long as they.
struct ConvolutionContext {
  CudaDevice& device;
  Cudnn& cudnn;
  AlgorithmCache& algorithms;
};

/// Each pass takes the fastest algorithm that gives the same bits every time and needs at most
/// kMostConvolutionWorkspace (scratch.h); with float32 and without TF32 none on transforms. Which
/// one that is has been timed once a kind of GPU, and is kept in `algorithms`. Where that keeps
/// nothing on disk, so that the next run would choose otherwise, or there is no room to time in,
/// cuDNN's guess is taken. Throws std::logic_error for a shape without output, InputError for a
/// tensor that is too large for cuDNN, DeviceError when no algorithm can be had.
std::unique_ptr<Conv2d> make_conv2d(const ConvolutionContext& context, const Conv2dShape& shape);

}  // namespace pfc
