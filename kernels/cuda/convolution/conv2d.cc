// Convolutions with cuDNN, NHWC.
//
// Each pass uses the fastest algorithm that is deterministic and needs at most
// kMostConvolutionWorkspace (kernels/cuda/scratch.h). With float32 and without TF32, algorithms
// that multiply transformed numbers are excluded, because they lose digits. The algorithms are
// timed once for each kind of GPU, and the fastest is stored in the AlgorithmCache. cuDNN's
// estimate is used instead if the cache is not on disk, because the next run could then select
// another algorithm, or if there is too little memory for timing.
//
// If cuDNN has no such algorithm, three fallbacks are tried in this order: an algorithm with a
// larger workspace; channels padded with zeros to a multiple of 8; an algorithm that is not
// deterministic, with a warning.
//
// The gradient of the weights is a sum over all pixels. cuDNN adds it in float32 and rounds it to
// the type of its inputs, once; it is then added to a float32 dw. In float16 it can overflow; the
// loss scale is then reduced. Algorithms that multiply transformed numbers are excluded here too.
// cuDNN's engines for a float32 result are 1.3 to 32 times slower (cuDNN 9.19 on an H200). For a
// 1 x 1 kernel the gradient is one matrix product, whose result is float32.
//
// Throws std::logic_error for a shape without output, InputError for a tensor that is too large
// for cuDNN, DeviceError when cuDNN has no algorithm at all.

#include <spdlog/spdlog.h>

#include <array>
#include <optional>
#include <utility>

#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/ops/cuda_ops.h"

namespace pfc {
namespace {

constexpr std::size_t kAlignment = 256;      // as for memory from cudaMalloc()
constexpr std::int64_t kPaddedChannels = 8;  // 16 bytes of a 16-bit type, as tensor cores read

std::size_t aligned_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

CudnnProblem problem_of(const Conv2dShape& shape, const CudaDevice& device) {
  if (device.activations != DType::kFloat32) {
    return {.shape = shape, .type = device.activations, .math = CUDNN_TENSOR_OP_MATH};
  }
  return {.shape = shape,
          .math = device.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH,
          .every_digit = !device.tf32};
}

Conv2dShape padded(Conv2dShape shape) {
  if (shape.groups != 1) return shape;
  for (std::int64_t* channels : {&shape.in_c, &shape.out_c}) {
    *channels = (*channels + kPaddedChannels - 1) / kPaddedChannels * kPaddedChannels;
  }
  return shape;
}

bool is_matrix_product(const Conv2dShape& s) {
  return s.kernel == 1 && s.stride == 1 && s.pad == 0 && s.groups == 1;
}

/// x, w and y of a pass, or their gradients.
using Tensors = std::array<Tensor, 3>;

/// Creates backward passes when they are planned or first called. An evaluation never calls them.
/// Training does not need the gradient of the input images, and cuDNN has few algorithms for their
/// three channels.
class CudnnConv2d : public Conv2d {
 public:
  CudnnConv2d(const ConvolutionContext& context, const Conv2dShape& shape)
      : Conv2d(shape, context.device.activations),
        context_(context),
        device_(context.device),
        problem_(problem_of(shape, context.device)) {
    make(forward_, problem_);
  }

  void plan_backward(bool data) override {
    if (data) make(backward_data_, problem_);
    if (multiplies()) return;
    CudnnProblem sums = problem_;
    sums.every_digit = true;
    make(backward_weights_, sums);
  }

 private:
  void run_forward(const Tensor& x, const Tensor& w, const Tensor& y) override {
    run(*forward_, {x, w, y}, false);
  }
  void run_backward_data(const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    plan_backward(true);
    run(*backward_data_, {dx, w, dy}, false);
  }
  void run_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                            bool accumulate) override {
    if (multiplies()) return multiply(x, dy, dw, accumulate);
    plan_backward(false);
    run(*backward_weights_, {x, dw, dy}, accumulate);
  }

  [[nodiscard]] bool multiplies() const {
    return device_.activations != DType::kFloat32 && is_matrix_product(shape_);
  }
  void multiply(const Tensor& x, const Tensor& dy, const Tensor& dw, bool accumulate) {
    const std::int64_t pixels = shape_.batch * shape_.in_h * shape_.in_w;
    context_.ops.gemm({.m = shape_.out_c,
                       .n = shape_.in_c,
                       .k = pixels,
                       .transpose_a = true,
                       .a = {dy.data, dy.dtype, {pixels, shape_.out_c}},
                       .b = {x.data, x.dtype, {pixels, shape_.in_c}},
                       .beta = accumulate ? 1.f : 0.f,
                       .c = {dw.data, dw.dtype, {shape_.out_c, shape_.in_c}}});
  }

  /// Creates the pass, and reserves scratch memory for its workspace, followed by its copies.
  template <typename Pass>
  void make(std::optional<Convolution<Pass>>& pass, const CudnnProblem& problem) {
    if (pass) return;
    pass.emplace(context_, problem);
    if (!pass->choose() && !make_padded(pass, problem)) {
      pass.emplace(context_, problem);
      if (!pass->choose_any()) {
        throw DeviceError("CUDA: cuDNN " + Cudnn::version() + " has no algorithm for " +
                          pass->what() + "; use another network or precision");
      }
      spdlog::warn(
          "{}: cuDNN {} has no deterministic algorithm; results will differ from run to run",
          pass->what(), Cudnn::version());
    }
    device_.scratch.reserve(aligned_up(pass->workspace_bytes()) + copied_bytes(*pass));
  }

  template <typename Pass>
  bool make_padded(std::optional<Convolution<Pass>>& pass, CudnnProblem problem) {
    problem.shape = padded(problem.shape);
    pass.emplace(context_, problem);
    return pass->choose();
  }

  /// Both return tensors without memory: own() as this class receives them, wanted() as it passes
  /// them to cuDNN.
  template <typename Pass>
  [[nodiscard]] Tensors own() const {
    const DType type = device_.activations;
    const bool weights = Pass::kOutput == kW;  // the gradient of weights is float32
    return {Tensor(nullptr, type, shape_.x_shape()),
            Tensor(nullptr, weights ? DType::kFloat32 : type, shape_.w_shape()),
            Tensor(nullptr, type, shape_.y_shape())};
  }
  template <typename Pass>
  [[nodiscard]] static Tensors wanted(const Convolution<Pass>& pass) {
    const auto& [s, type, math, every_digit] = pass.problem;
    return {Tensor(nullptr, type, s.x_shape()), Tensor(nullptr, type, s.w_shape()),
            Tensor(nullptr, type, s.y_shape())};
  }
  [[nodiscard]] static bool alike(const Tensor& a, const Tensor& b) {
    return a.dtype == b.dtype && a.shape == b.shape;
  }

  template <typename Pass>
  [[nodiscard]] std::size_t copied_bytes(const Convolution<Pass>& pass) const {
    const Tensors mine = own<Pass>(), its = wanted(pass);
    std::size_t sum = 0;
    for (const std::size_t i : {kX, kW, kY}) {
      if (!alike(mine[i], its[i])) sum += aligned_up(its[i].bytes());
    }
    return sum;
  }

  template <typename Pass>
  void run(const Convolution<Pass>& pass, const Tensors& mine, bool accumulate) {
    Tensors its = wanted(pass);
    std::byte* copies = device_.scratch.data() + aligned_up(pass.workspace_bytes());
    for (const std::size_t i : {kX, kW, kY}) {
      if (alike(mine[i], its[i])) {
        its[i].data = mine[i].data;
        continue;
      }
      its[i].data = std::exchange(copies, copies + aligned_up(its[i].bytes()));
      if (i != Pass::kOutput) copy_channels(device_, mine[i], its[i], false);
    }
    const bool in_place = its[Pass::kOutput].data == mine[Pass::kOutput].data;
    pass.run({.x = its[kX].data, .w = its[kW].data, .y = its[kY].data},
             in_place && accumulate ? 1.f : 0.f);
    if (!in_place) copy_channels(device_, its[Pass::kOutput], mine[Pass::kOutput], accumulate);
  }

  const ConvolutionContext context_;
  CudaDevice& device_;
  const CudnnProblem problem_;
  std::optional<Convolution<ForwardPass>> forward_;
  std::optional<Convolution<BackwardDataPass>> backward_data_;
  std::optional<Convolution<BackwardWeightsPass>> backward_weights_;
};

}  // namespace

std::unique_ptr<Conv2d> CudaOps::conv2d(const Conv2dShape& shape) {
  if (depthwise_supports(shape)) return make_depthwise_conv2d(device_, shape);
  return std::make_unique<CudnnConv2d>(ConvolutionContext{device_, *this, cudnn_, algorithms_},
                                       shape);
}

}  // namespace pfc
