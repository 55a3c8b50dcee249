// The gradient of convolution weights as sums of outer products, straight from NHWC activations.
#pragma once

#include "kernels/cpu/runtime/cpu_device.h"

namespace pfc {

/// dw[o, kh, kw, i] (+)= sum over output pixels of dy[pixel, o] * x[pixel moved by (kh, kw), i].
/// No scratch: each thread owns some output channels, so the bits do not hang on the number of
/// threads. For groups == 1. The device is borrowed.
class DenseWeightGradient {
 public:
  DenseWeightGradient(CpuDevice& device, const Conv2dShape& shape)
      : device_(device), shape_(shape) {}
  void execute(const float* x, const float* dy, float* dw, bool accumulate) const;

 private:
  CpuDevice& device_;
  Conv2dShape shape_;
};

/// The same where x has too few channels to fill a vector (images): vectors run along the output
/// channels, threads share the rows, and their sums are added in order.
class StemWeightGradient {
 public:
  StemWeightGradient(CpuDevice& device, const Conv2dShape& shape);
  void execute(const float* x, const float* dy, float* dw, bool accumulate) const;

 private:
  [[nodiscard]] float* sums_of(int part) const;  ///< [kernel, kernel, in_c, out_c] in scratch

  CpuDevice& device_;
  Conv2dShape shape_;
};

}  // namespace pfc
