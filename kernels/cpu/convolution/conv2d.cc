#include <functional>
#include <memory>
#include <utility>

#include "kernels/cpu/convolution/algorithms.h"
#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc {
namespace {

// T: type of activations and input weights.
template <typename T>
using WeightedPass = std::function<void(const T* input, const T* weights, T* output)>;
template <typename T>
using GradientPass = std::function<void(const T* x, const T* dy, float* dw, bool accumulate)>;

// These functions select the fastest algorithm for each pass of a shape, as measured with
// bench/programs/conv2d_benchmark.cc (docs/benchmarks/cpu.md).

// Returns whether to use GroupedConvolution. With two channels per group, oneDNN is six times
// slower. With one channel, GroupedConvolution is faster if the rows of an image do not stay in the
// cache, because it prefetches them; otherwise oneDNN is faster.
bool own_grouped(const Conv2dShape& s) {
  constexpr std::int64_t kWide = 20;
  if (!few_channels_in_group(s) || s.kernel != 3 || s.pad >= s.kernel) return false;
  return s.in_c / s.groups == 2 || (s.stride == 1 && s.in_w >= kWide);
}

template <typename T>
WeightedPass<T> choose_forward(CpuDevice& device, const Conv2dShape& s) {
  if (own_grouped(s)) {
    return [plan = GroupedConvolution<T>(device, s)](const T* x, const T* w, T* y) {
      plan.forward(x, w, y);
    };
  }
  return [plan = std::make_shared<DnnlWeightedPass>(dnnl_forward(device, s, dtype_of<T>()))](
             const T* x, const T* w, T* y) { plan->execute(x, w, y); };
}

template <typename T>
WeightedPass<T> choose_backward_data(CpuDevice& device, const Conv2dShape& s) {
  if (own_grouped(s) && s.stride == 1) {
    return [plan = GroupedConvolution<T>(device, s)](const T* dy, const T* w, T* dx) {
      plan.backward_data(dy, w, dx);
    };
  }
  return [plan = std::make_shared<DnnlWeightedPass>(dnnl_backward_data(device, s, dtype_of<T>()))](
             const T* dy, const T* w, T* dx) { plan->execute(dy, w, dx); };
}

template <typename T, typename Plan>
GradientPass<T> gradient_pass(std::shared_ptr<Plan> plan) {
  return [plan = std::move(plan)](const T* x, const T* dy, float* dw, bool accumulate) {
    plan->execute(x, dy, dw, accumulate);
  };
}

// Returns whether to use our gradients, which divide the output channels between threads. With
// fewer than four channels per thread, loads would take most of the time.
bool own_dense_gradient(const CpuDevice& device, const Conv2dShape& s) {
  return s.groups == 1 && s.out_c >= 4L * device.threads.count();
}

constexpr std::int64_t kFewChannels = 16;  // less than the widest vector

// Returns nullptr if none of our algorithms is the fastest.
GradientPass<float> choose_dense_gradient(CpuDevice& device, const Conv2dShape& s, float) {
  if (s.groups == 1 && s.in_c < kFewChannels) {
    return gradient_pass<float>(std::make_shared<StemWeightGradient>(device, s));
  }
  if (!own_dense_gradient(device, s)) return nullptr;
  return gradient_pass<float>(std::make_shared<DenseWeightGradient>(device, s));
}

GradientPass<BFloat16> choose_dense_gradient(CpuDevice& device, const Conv2dShape& s, BFloat16) {
  // With few channels, as in images, oneDNN is as fast as our gradient. For 1 x 1 kernels it is
  // faster, because PairedWeightGradient would spend much of its time on packing pairs of pixels.
  if (s.in_c < kFewChannels || !own_dense_gradient(device, s)) return nullptr;
  if (!PairedWeightGradient::supports(s)) return nullptr;
  return gradient_pass<BFloat16>(std::make_shared<PairedWeightGradient>(device, s));
}

template <typename T>
GradientPass<T> choose_backward_weights(CpuDevice& device, const Conv2dShape& s) {
  if (GradientPass<T> dense = choose_dense_gradient(device, s, T{})) return dense;
  // Also used for 7 x 7 kernels. In the networks of pfc such a kernel covers the whole image, and
  // oneDNN is thirty times slower.
  if (own_grouped(s) || (few_channels_in_group(s) && s.kernel == 7)) {
    return [plan = GroupedConvolution<T>(device, s)](const T* x, const T* dy, float* dw,
                                                     bool accumulate) {
      plan.backward_weights(x, dy, dw, accumulate);
    };
  }
  return gradient_pass<T>(std::make_shared<DnnlBackwardWeightsInParts>(device, s, dtype_of<T>()));
}

template <typename T>
class CpuConv2d : public Conv2d {
 public:
  CpuConv2d(CpuDevice& device, const Conv2dShape& shape)
      : Conv2d(shape, dtype_of<T>()),
        forward_(choose_forward<T>(device, shape)),
        backward_data_(choose_backward_data<T>(device, shape)),
        backward_weights_(choose_backward_weights<T>(device, shape)) {}

 private:
  void run_forward(const Tensor& x, const Tensor& w, const Tensor& y) override {
    forward_(numbers<T>(x), numbers<T>(w), numbers<T>(y));
  }
  void run_backward_data(const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    backward_data_(numbers<T>(dy), numbers<T>(w), numbers<T>(dx));
  }
  void run_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                            bool accumulate) override {
    backward_weights_(numbers<T>(x), numbers<T>(dy), dw.f32(), accumulate);
  }

  WeightedPass<T> forward_, backward_data_;
  GradientPass<T> backward_weights_;
};

}  // namespace

std::unique_ptr<Conv2d> CpuOps::conv2d(const Conv2dShape& shape) {
  if (activations_ == DType::kFloat32) return std::make_unique<CpuConv2d<float>>(device_, shape);
  return std::make_unique<CpuConv2d<BFloat16>>(device_, shape);
}

}  // namespace pfc
