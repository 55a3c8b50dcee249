// The algorithms for a convolution's passes on a CPU; conv2d.cc chooses among them. Activations are
// NHWC, weights OHWI (kernels/ops.h). Every constructor borrows the device and reserves the scratch
// memory that its algorithm needs.
#pragma once

#include <optional>

#include "kernels/cpu/runtime/cpu_device.h"

namespace pfc {

/// A pass that reads weights (y from x, or dx from dy) by oneDNN. Every call reorders the weights
/// in scratch into the layout that oneDNN prefers, since weights change between calls. Made by the
/// two functions below.
class DnnlWeightedPass {
 public:
  /// Overwrites output.
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
  // Scratch: rotated weights, then weights in oneDNN's layout, then oneDNN's own scratch.
  std::size_t turned_bytes_, blocked_bytes_;
  DnnlCall call_;
  std::optional<DnnlCall> reorder_;
};

DnnlWeightedPass dnnl_forward(CpuDevice& device, const Conv2dShape& shape);

/// For stride 1 and one group, this is computed as a forward convolution of dy, with the kernel
/// rotated by 180 degrees and its channels exchanged: oneDNN's forward code is up to a third faster
/// than its backward code.
DnnlWeightedPass dnnl_backward_data(CpuDevice& device, const Conv2dShape& shape);

/// The gradient of the weights by oneDNN: computed in oneDNN's layout in scratch, then reordered to
/// OHWI and stored in dw or added to it. oneDNN sums in float32 over all images that it is given.
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

/// The same, a few images at a time, so that no float32 sum has so many terms that its rounding
/// errors would show.
class DnnlBackwardWeightsInParts {
 public:
  DnnlBackwardWeightsInParts(CpuDevice& device, const Conv2dShape& shape);
  void execute(const float* x, const float* dy, float* dw, bool accumulate);

 private:
  Conv2dShape part_shape_, rest_shape_;
  std::int64_t parts_;
  DnnlBackwardWeights part_;
  std::optional<DnnlBackwardWeights> rest_;  // of the images that the parts leave over
};

/// Convolutions with one or two channels in each group, for which oneDNN is slow or has only its
/// reference code.
class GroupedConvolution {
 public:
  /// True for as many input as output channels, one or two of each in a group. Depthwise
  /// convolutions are among them; whether oneDNN is faster for such a shape, the caller decides.
  static bool supports(const Conv2dShape& shape);

  GroupedConvolution(CpuDevice& device, const Conv2dShape& shape);
  void forward(const float* x, const float* w, float* y) const;
  /// REQUIRES: stride 1.
  void backward_data(const float* dy, const float* w, float* dx) const;
  /// REQUIRES: a kernel of 3 or 7.
  void backward_weights(const float* x, const float* dy, float* dw, bool accumulate) const;

 private:
  // Scratch: the gradients in float64, then weights or sums of gradients in float32, both in the
  // vector kernels' layout.
  [[nodiscard]] std::size_t gradient_bytes() const;
  [[nodiscard]] double* gradient_scratch() const;
  [[nodiscard]] float* weight_scratch() const;
  void run(const GroupedConv& g) const;

  CpuDevice& device_;
  Conv2dShape shape_;
  int per_group_;  // 1 or 2
};

/// The gradient of the weights as a sum of outer products, computed from NHWC activations as they
/// are: dw[o, kh, kw, i] (+)= sum over output pixels of dy[pixel, o] * x[pixel moved by (kh, kw),
/// i]. Each thread computes some output channels alone, so it takes no scratch, and the result does
/// not depend on the number of threads. REQUIRES: groups == 1.
class DenseWeightGradient {
 public:
  DenseWeightGradient(CpuDevice& device, const Conv2dShape& shape)
      : device_(device), shape_(shape) {}
  void execute(const float* x, const float* dy, float* dw, bool accumulate) const;

 private:
  CpuDevice& device_;
  Conv2dShape shape_;
};

/// The same gradient where x has too few channels to fill a vector, as images have. Vectors run
/// along the output channels; threads divide parts of the rows, whose sums are added in order and
/// in float64. The result does not depend on the number of threads. REQUIRES: groups == 1.
class StemWeightGradient {
 public:
  StemWeightGradient(CpuDevice& device, const Conv2dShape& shape);
  void execute(const float* x, const float* dy, float* dw, bool accumulate) const;

 private:
  void sum_part(int part, const float* x, const float* dy) const;
  void merge_parts(const Range& outputs, float* dw, bool accumulate) const;
  [[nodiscard]] float* sums_of(int part) const;  ///< [kernel, kernel, in_c, out_c] in scratch

  CpuDevice& device_;
  Conv2dShape shape_;
  int parts_;
};

}  // namespace pfc
