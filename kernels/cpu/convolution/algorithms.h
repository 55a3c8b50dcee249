// Algorithms for the passes of a convolution on a CPU; conv2d.cc selects among them. Activations
// are NHWC, weights OHWI (kernels/ops.h). Activations and input weights are float32 or bfloat16;
// gradients of weights are float32. Every constructor borrows the device and reserves the scratch
// memory of its algorithm.
#pragma once

#include <optional>

#include "kernels/cpu/runtime/cpu_device.h"

namespace pfc {

/// Number of output pixels that a weight gradient sums in registers, starting from zero. Large
/// enough to make the additions to memory negligible, and small enough that 64 channels of x stay
/// in the L1 cache. A batch of 128 images of 112 x 112 has 3584 blocks. With float32 sums of 448
/// products and of 3584 sums its gradients are accurate to about 1e-6; a single sum over all pixels
/// has an error of 4e-5.
inline constexpr std::int64_t kBlockPixels = 448;

/// A pass that reads weights (y from x, or dx from dy), using oneDNN. Weights change between calls,
/// so every call copies them to scratch in oneDNN's preferred layout. Winograd's algorithm needs
/// such a copy of the activations too. Created by the two functions below.
class DnnlWeightedPass {
 public:
  /// Overwrites output.
  void execute(const void* input, const void* weights, void* output);

 private:
  friend DnnlWeightedPass dnnl_forward(CpuDevice&, const Conv2dShape&, DType);
  friend DnnlWeightedPass dnnl_backward_data(CpuDevice&, const Conv2dShape&, DType);
  struct Call {
    dnnl::primitive primitive;
    dnnl::memory::desc weights, scratchpad;  // in oneDNN's preferred layout, like the next two
    DnnlArgument input, output;
  };
  /// An argument in oneDNN's layout: its offset in scratch, and the reorder to or from it.
  struct Reordered {
    std::size_t place = 0;
    std::optional<DnnlCall> reorder;
  };
  /// Our layouts, for one of several equal parts of the batch.
  struct Layouts {
    dnnl::memory::desc input, weights, output;
    std::int64_t parts = 1;
  };
  DnnlWeightedPass(CpuDevice& device, const Conv2dShape& shape, const Layouts& ours, bool turned,
                   const Call& call);
  Reordered plan_reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to,
                         std::size_t bytes);
  void turn(const std::byte* weights, std::byte* turned) const;
  void* reordered(Reordered& argument, const void* from);

  CpuDevice& device_;
  Conv2dShape shape_;
  int input_, output_;
  std::size_t pixel_bytes_;  // weights of one output channel at one pixel of the kernel
  // Scratch: rotated weights, then arguments in oneDNN's layouts, then oneDNN's own scratch.
  std::size_t turned_bytes_, own_place_, own_bytes_;
  std::int64_t parts_;
  std::size_t input_bytes_, output_bytes_;  // per part
  Reordered weights_, activations_, result_;
  DnnlCall call_;
};

DnnlWeightedPass dnnl_forward(CpuDevice& device, const Conv2dShape& shape, DType type);

/// Makes the pass from dy to dx. With stride 1 and one group it is a forward convolution of dy with
/// the kernel rotated by 180 degrees and its channels exchanged, because oneDNN's forward code is
/// up to a third faster than its backward code.
DnnlWeightedPass dnnl_backward_data(CpuDevice& device, const Conv2dShape& shape, DType type);

/// Gradient of the weights by oneDNN: computed in oneDNN's layout in scratch, then reordered to
/// OHWI and stored in or added to dw. oneDNN sums in float32 over all images of a call.
class DnnlBackwardWeights {
 public:
  DnnlBackwardWeights(CpuDevice& device, const Conv2dShape& shape, DType type);
  void execute(const void* x, const void* dy, float* dw, bool accumulate);

 private:
  DnnlCall reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to, bool accumulate);

  CpuDevice& device_;
  std::size_t gradient_bytes_ = 0, reorder_bytes_ = 0;
  std::optional<DnnlCall> call_, store_, add_;
};

/// Computes the same gradient for a few images at a time: short float32 sums keep rounding errors
/// small.
class DnnlBackwardWeightsInParts {
 public:
  DnnlBackwardWeightsInParts(CpuDevice& device, const Conv2dShape& shape, DType type);
  void execute(const void* x, const void* dy, float* dw, bool accumulate);

 private:
  Conv2dShape part_shape_, rest_shape_;
  std::int64_t parts_;
  std::size_t number_bytes_;
  DnnlBackwardWeights part_;
  std::optional<DnnlBackwardWeights> rest_;  // for the images left over by the parts
};

/// Returns whether GroupedConvolution supports this shape: as many input as output channels, with
/// one or two per group. For depthwise convolutions oneDNN may be faster; the caller decides.
bool few_channels_in_group(const Conv2dShape& shape);

/// Convolutions with one or two channels per group, for which oneDNN is slow or has only its
/// reference code. T: float or BFloat16.
template <typename T>
class GroupedConvolution {
 public:
  /// REQUIRES: few_channels_in_group(shape).
  GroupedConvolution(CpuDevice& device, const Conv2dShape& shape);
  void forward(const T* x, const T* w, T* y) const;
  /// REQUIRES: stride 1.
  void backward_data(const T* dy, const T* w, T* dx) const;
  /// REQUIRES: the kernel size is 3 or 7.
  void backward_weights(const T* x, const T* dy, float* dw, bool accumulate) const;

 private:
  // Scratch: the gradients in float64, then weights or sums of gradients in float32, both in the
  // layout of the vector kernels.
  [[nodiscard]] std::size_t gradient_bytes() const;
  [[nodiscard]] double* gradient_scratch() const;
  [[nodiscard]] float* weight_scratch() const;
  void run(const GroupedConv<T>& g) const;

  CpuDevice& device_;
  Conv2dShape shape_;
  int per_group_;  // 1 or 2
};

/// Gradient of the weights as a sum of outer products of NHWC activations: dw[o, kh, kw, i] (+)=
/// sum over output pixels of dy[pixel, o] * x[pixel shifted by (kh, kw), i]. Each thread computes
/// its own output channels, so no scratch is needed, and the result does not depend on the number
/// of threads. REQUIRES: groups == 1.
class DenseWeightGradient {
 public:
  DenseWeightGradient(CpuDevice& device, const Conv2dShape& shape)
      : device_(device), shape_(shape) {}
  void execute(const float* x, const float* dy, float* dw, bool accumulate) const;

 private:
  CpuDevice& device_;
  Conv2dShape shape_;
};

/// Computes the same gradient from bfloat16 activations, two pixels at a time: the processor's
/// bfloat16 instruction adds two products at once. Each thread packs the pairs of pixels of a block
/// of rows in scratch, and computes its own output channels, so the result does not depend on the
/// number of threads.
class PairedWeightGradient {
 public:
  /// Returns true for one group and kernels of 2 x 2 to 8 x 8, not smaller than the stride.
  static bool supports(const Conv2dShape& shape);

  PairedWeightGradient(CpuDevice& device, const Conv2dShape& shape);
  void execute(const BFloat16* x, const BFloat16* dy, float* dw, bool accumulate) const;

 private:
  struct Block;
  [[nodiscard]] Range outputs_of(int part) const;
  [[nodiscard]] std::int64_t pairs_of_part() const;  // number of pairs that a thread has in scratch
  [[nodiscard]] Block block_at(std::int64_t begin, int part) const;
  void pack(const Block& block, const BFloat16* x, const BFloat16* dy) const;
  void multiply(const Block& block, float* dw) const;
  void multiply_panels(const Block& block, int kh, int kw, std::int64_t x_panel, float* dw) const;

  CpuDevice& device_;
  Conv2dShape shape_;
  std::int64_t pairs_;       // number of pairs of output pixels in a row
  std::int64_t row_pairs_;   // number of pairs of x in a row: a pair starts at every pixel
  std::int64_t block_rows_;  // number of output rows in a block
  std::int64_t slots_ = 0;   // maximum number of rows of x that a block packs
  std::int64_t x_panels_, x_panel_size_ = 0;
  std::int64_t dy_panels_, dy_panel_size_;  // for the thread with the most output channels
};

/// Computes the same gradient for images: x has too few channels to fill a vector, so vectors run
/// along the output channels. The rows are divided into parts, whose sums are added in order and in
/// float64, so the result does not depend on the number of threads. REQUIRES: groups == 1.
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
