// Convolutions with one or two channels a group, where oneDNN is slow or has only its reference
// code.
#pragma once

#include "kernels/cpu/runtime/cpu_device.h"

namespace pfc {

/// As many input as output channels, one or two of each a group.
class GroupedConvolution {
 public:
  /// Does this class have the shape? (Depthwise convolutions too; which passes of those it is
  /// faster at is the caller's knowledge.)
  static bool supports(const Conv2dShape& shape);

  /// The device is borrowed; scratch is reserved.
  GroupedConvolution(CpuDevice& device, const Conv2dShape& shape);
  void forward(const float* x, const float* w, float* y) const;
  /// For stride 1.
  void backward_data(const float* dy, const float* w, float* dx) const;
  /// For kernels of 3 and 7.
  void backward_weights(const float* x, const float* dy, float* dw, bool accumulate) const;

 private:
  [[nodiscard]] float* weight_scratch() const;
  void run(const GroupedConv& g) const;

  CpuDevice& device_;
  Conv2dShape shape_;
  int per_group_;  // 1 or 2
};

}  // namespace pfc
