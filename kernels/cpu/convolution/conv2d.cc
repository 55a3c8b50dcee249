#include <functional>
#include <memory>
#include <utility>

#include "kernels/cpu/convolution/algorithms.h"
#include "kernels/cpu/ops/cpu_ops.h"

namespace pfc {
namespace {

using WeightedPass = std::function<void(const float* input, const float* weights, float* output)>;
using GradientPass =
    std::function<void(const float* x, const float* dy, float* dw, bool accumulate)>;

// These functions choose the fastest algorithm for each pass of a shape, as measured with
// tests/kernels/conv2d_benchmark.cc.

// Whether to prefer GroupedConvolution. With two channels in a group, oneDNN is six times slower.
// With one channel, our code is faster where the rows of an image do not stay in the cache, since
// it prefetches them; otherwise oneDNN is faster.
bool own_grouped(const Conv2dShape& s) {
  constexpr std::int64_t kWide = 20;
  if (!GroupedConvolution::supports(s) || s.kernel != 3 || s.pad >= s.kernel) return false;
  return s.in_c / s.groups == 2 || (s.stride == 1 && s.in_w >= kWide);
}

WeightedPass choose_forward(CpuDevice& device, const Conv2dShape& s) {
  if (own_grouped(s)) {
    return [plan = GroupedConvolution(device, s)](const float* x, const float* w, float* y) {
      plan.forward(x, w, y);
    };
  }
  return [plan = std::make_shared<DnnlWeightedPass>(dnnl_forward(device, s))](
             const float* x, const float* w, float* y) { plan->execute(x, w, y); };
}

WeightedPass choose_backward_data(CpuDevice& device, const Conv2dShape& s) {
  if (own_grouped(s) && s.stride == 1) {
    return [plan = GroupedConvolution(device, s)](const float* dy, const float* w, float* dx) {
      plan.backward_data(dy, w, dx);
    };
  }
  return [plan = std::make_shared<DnnlWeightedPass>(dnnl_backward_data(device, s))](
             const float* dy, const float* w, float* dx) { plan->execute(dy, w, dx); };
}

template <typename Plan>
GradientPass gradient_pass(std::shared_ptr<Plan> plan) {
  return [plan = std::move(plan)](const float* x, const float* dy, float* dw, bool accumulate) {
    plan->execute(x, dy, dw, accumulate);
  };
}

GradientPass choose_backward_weights(CpuDevice& device, const Conv2dShape& s) {
  constexpr std::int64_t kFewChannels = 16;  // less than the widest vector
  if (s.groups == 1 && s.in_c < kFewChannels) {
    return gradient_pass(std::make_shared<StemWeightGradient>(device, s));
  }
  // This divides the output channels among the threads. With fewer than four channels for a thread,
  // most of the time would go into loads.
  if (s.groups == 1 && s.out_c >= 4L * device.threads.count()) {
    return gradient_pass(std::make_shared<DenseWeightGradient>(device, s));
  }
  // Also for depthwise convolutions whose kernel covers the image, where oneDNN is thirty times
  // slower.
  if (own_grouped(s) || (GroupedConvolution::supports(s) && s.kernel == 7)) {
    return [plan = GroupedConvolution(device, s)](const float* x, const float* dy, float* dw,
                                                  bool accumulate) {
      plan.backward_weights(x, dy, dw, accumulate);
    };
  }
  return gradient_pass(std::make_shared<DnnlBackwardWeightsInParts>(device, s));
}

class CpuConv2d : public Conv2d {
 public:
  CpuConv2d(CpuDevice& device, const Conv2dShape& shape)
      : Conv2d(shape, DType::kFloat32),
        forward_(choose_forward(device, shape)),
        backward_data_(choose_backward_data(device, shape)),
        backward_weights_(choose_backward_weights(device, shape)) {}

 private:
  void run_forward(const Tensor& x, const Tensor& w, const Tensor& y) override {
    forward_(x.f32(), w.f32(), y.f32());
  }
  void run_backward_data(const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    backward_data_(dy.f32(), w.f32(), dx.f32());
  }
  void run_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                            bool accumulate) override {
    backward_weights_(x.f32(), dy.f32(), dw.f32(), accumulate);
  }

  WeightedPass forward_, backward_data_;
  GradientPass backward_weights_;
};

}  // namespace

std::unique_ptr<Conv2d> CpuOps::conv2d(const Conv2dShape& shape) {
  return std::make_unique<CpuConv2d>(device_, shape);
}

}  // namespace pfc
