// The passes of a convolution through oneDNN. Activations stay NHWC; weights are reordered from
// ours (OHWI) into the layout that oneDNN likes best, in scratch, in every call, since they change.
#pragma once

#include <optional>

#include "kernels/cpu/runtime/cpu_device.h"

namespace pfc {

/// A pass that reads weights: y from x, or dx from dy. Made by the two functions below.
class DnnlWeightedPass {
 public:
  /// input and weights are only read.
  void execute(const float* input, const float* weights, float* output);

 private:
  friend DnnlWeightedPass dnnl_forward(CpuDevice& device, const Conv2dShape& shape);
  friend DnnlWeightedPass dnnl_backward_data(CpuDevice& device, const Conv2dShape& shape);
  struct Call {
    dnnl::primitive primitive;
    dnnl::memory::desc blocked, scratchpad;
    DnnlArgument input, output;
  };
  DnnlWeightedPass(CpuDevice& device, const Conv2dShape& shape, const dnnl::memory::desc& weights,
                   bool turned, const Call& call);
  void turn(const float* weights, float* turned) const;

  CpuDevice& device_;
  Conv2dShape shape_;
  int input_, output_;
  std::size_t turned_bytes_, blocked_bytes_;  // scratch: turned weights, blocked ones, oneDNN's own
  DnnlCall call_;
  std::optional<DnnlCall> reorder_;
};

/// The device is borrowed; scratch is reserved.
DnnlWeightedPass dnnl_forward(CpuDevice& device, const Conv2dShape& shape);

/// For stride 1 and one group this is a forward convolution of dy with the kernel turned by 180
/// degrees and channels exchanged: oneDNN's forward code is up to a third faster than its backward.
DnnlWeightedPass dnnl_backward_data(CpuDevice& device, const Conv2dShape& shape);

/// The gradient of the weights, made in oneDNN's layout in scratch, then stored or added in ours.
class DnnlBackwardWeights {
 public:
  DnnlBackwardWeights(CpuDevice& device, const Conv2dShape& shape);
  void execute(const float* x, const float* dy, float* dw, bool accumulate);

 private:
  DnnlCall reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to, bool accumulate);

  CpuDevice& device_;
  std::size_t gradient_bytes_ = 0, reorder_bytes_ = 0;
  std::optional<DnnlCall> call_, store_, add_;
};

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
