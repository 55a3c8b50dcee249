// Convolutions through cuDNN, NHWC.
//
// Each pass uses the fastest algorithm that is deterministic and needs at most
// kMostConvolutionWorkspace (kernels/cuda/scratch.h). With float32 and without TF32, algorithms
// that multiply transformed numbers are excluded, because they lose digits. The algorithms are
// timed once for each kind of GPU, and the fastest is kept in the AlgorithmCache. cuDNN's guess is
// used instead where the cache is not on disk, since the next run could then choose another
// algorithm, and where there is too little memory to time the algorithms.
//
// Throws std::logic_error for a shape without output, InputError for a tensor that is too large for
// cuDNN, DeviceError when there is no such algorithm.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "common/byte_size.h"
#include "kernels/cuda/convolution/convolution_passes.h"
#include "kernels/cuda/convolution/own_kernels.h"
#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/cuda/scratch.h"

namespace pfc {
namespace {

/// What the convolutions of a device share. REQUIRES: they are destroyed before its members.
struct ConvolutionContext {
  CudaDevice& device;
  Cudnn& cudnn;
  AlgorithmCache& algorithms;
};

constexpr std::size_t kAlignment = 256;  // as of memory from cudaMalloc()

std::size_t aligned_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Describes the convolution in messages, and is its key in the algorithm cache.
std::string text(const Conv2dShape& s, const CudaDevice& device) {
  const bool tf32 = device.activations == DType::kFloat32 && device.tf32;
  const char* const type = tf32 ? "tf32" : name_of(device.activations);
  return "convolution " + std::to_string(s.batch) + "x" + std::to_string(s.in_h) + "x" +
         std::to_string(s.in_w) + "x" + std::to_string(s.in_c) + " to " + std::to_string(s.out_c) +
         " kernel " + std::to_string(s.kernel) + " stride " + std::to_string(s.stride) + " pad " +
         std::to_string(s.pad) + " groups " + std::to_string(s.groups) + " " + type;
}

cudnnMathType_t math_of(const CudaDevice& device) {
  if (device.activations != DType::kFloat32) return CUDNN_TENSOR_OP_MATH;
  return device.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;  // the default rounds to TF32
}

// Memory in which algorithms are timed; tensors of zeros.
class TimingMemory {
 public:
  TimingMemory(const Conv2dShape& s, const CudaDevice& device, std::size_t workspace_bytes)
      : x_(bytes_of(s.x_shape(), device)),
        w_(bytes_of(s.w_shape(), device)),
        y_(bytes_of(s.y_shape(), device)),
        workspace_(workspace_bytes) {
    for (CudaBuffer* buffer : {&x_, &w_, &y_}) {
      cuda_check(cudaMemsetAsync(buffer->data(), 0, buffer->bytes(), device.compute.get()),
                 "zeroing memory");
    }
  }
  static std::size_t bytes(const Conv2dShape& s, const CudaDevice& device) {
    return bytes_of(s.x_shape(), device) + bytes_of(s.w_shape(), device) +
           bytes_of(s.y_shape(), device);
  }
  [[nodiscard]] ConvolutionMemory memory() {
    return {.x = x_.data(),
            .w = w_.data(),
            .y = y_.data(),
            .workspace = workspace_.data(),
            .workspace_bytes = workspace_.bytes()};
  }

 private:
  static std::size_t bytes_of(const Shape& shape, const CudaDevice& device) {
    return static_cast<std::size_t>(shape.elements()) * size_of(device.activations);
  }
  CudaBuffer x_, w_, y_, workspace_;
};

/// One of the three passes of a shape, with its algorithm.
template <typename Pass>
class Convolution {
 public:
  Convolution(const ConvolutionContext& context, const Conv2dShape& shape,
              const ConvolutionDescriptors& descriptors)
      : context_(context),
        descriptors_(descriptors),
        what_(text(shape, context.device) + ", " + Pass::kName) {
    make_descriptor(shape);
    if (!take_kept()) choose(shape);
  }

  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }

  void run(ConvolutionMemory memory, float beta) const {
    memory.workspace_bytes = workspace_bytes_;
    memory.workspace = workspace_bytes_ == 0 ? nullptr : context_.device.scratch.data();
    require(
        Pass::run(context_.cudnn.get(), descriptors_, descriptor_.get(), algorithm_, memory, beta),
        "the pass");
  }

 private:
  using Algorithm = typename Pass::Algorithm;
  using Result = typename Pass::Result;
  using Results = std::array<Result, Pass::kAlgorithms * 4>;  // 4: several math types for each

  void require(cudnnStatus_t status, const char* call) const {
    context_.cudnn.require(status, call, what_);
  }

  void make_descriptor(const Conv2dShape& s) {
    cudnnConvolutionDescriptor_t made = nullptr;
    require(cudnnCreateConvolutionDescriptor(&made), "cudnnCreateConvolutionDescriptor");
    descriptor_.reset(made);
    require(cudnnSetConvolution2dDescriptor(made, s.pad, s.pad, s.stride, s.stride, 1, 1,
                                            CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
            "cudnnSetConvolution2dDescriptor");
    require(cudnnSetConvolutionGroupCount(made, static_cast<int>(s.groups)),
            "cudnnSetConvolutionGroupCount");
    set_math(math_of(context_.device));
  }

  void set_math(cudnnMathType_t math) {
    require(cudnnSetConvolutionMathType(descriptor_.get(), math), "cudnnSetConvolutionMathType");
  }

  // The workspace of an algorithm. Sets *there to whether cuDNN has the algorithm for this shape.
  [[nodiscard]] std::size_t workspace_of(Algorithm algorithm, bool* there) const {
    std::size_t bytes = 0;
    *there = Pass::workspace(context_.cudnn.get(), descriptors_, descriptor_.get(), algorithm,
                             &bytes) == CUDNN_STATUS_SUCCESS &&
             bytes <= kMostConvolutionWorkspace;
    return *there ? bytes : 0;
  }

  bool take(const AlgorithmChoice& choice) {
    if (choice.algorithm < 0 || choice.algorithm >= Pass::kAlgorithms) return false;
    algorithm_ = static_cast<Algorithm>(choice.algorithm);
    set_math(static_cast<cudnnMathType_t>(choice.math));
    bool there = false;
    workspace_bytes_ = workspace_of(algorithm_, &there);
    return there;
  }

  bool take_kept() {
    const std::optional<AlgorithmChoice> kept = context_.algorithms.find(what_);
    if (!kept) return false;
    if (take(*kept)) return true;
    context_.algorithms.forget(what_);
    set_math(math_of(context_.device));
    return false;
  }

  void choose(const Conv2dShape& shape) {
    Results results{};
    int count = 0;
    const bool timed = context_.algorithms.on_disk() && time(shape, results, &count);
    if (!timed) {
      require(Pass::guess(context_.cudnn.get(), descriptors_, descriptor_.get(),
                          static_cast<int>(results.size()), &count, results.data()),
              "a guess at the algorithm");
    }
    // cuDNN has sorted them, the fastest first.
    const auto end = results.begin() + count;
    const bool every_digit = math_of(context_.device) == CUDNN_FMA_MATH;
    const auto best = std::find_if(results.begin(), end, [&](const Result& r) {
      return r.status == CUDNN_STATUS_SUCCESS && r.determinism == CUDNN_DETERMINISTIC &&
             r.memory <= kMostConvolutionWorkspace && (!every_digit || Pass::sums_products(r.algo));
    });
    AlgorithmChoice fastest;
    if (best != end) fastest = choice_of(*best);
    if (best != end && timed) fastest = context_.algorithms.keep(what_, fastest);
    if (best == end || !take(fastest)) {
      throw DeviceError("CUDA: cuDNN " + Cudnn::version() + " has no deterministic algorithm for " +
                        what_ + " within " + byte_size_text(kMostConvolutionWorkspace) +
                        " of workspace");
    }
  }

  // cuDNN may report the default math type for an algorithm that it timed without TF32. With that
  // math type it would round to TF32, so the one that was requested is taken instead.
  [[nodiscard]] AlgorithmChoice choice_of(const Result& r) const {
    const cudnnMathType_t asked = math_of(context_.device);
    return {.algorithm = static_cast<int>(r.algo),
            .math = static_cast<int>(asked == CUDNN_FMA_MATH ? asked : r.mathType)};
  }

  /// Returns false where there is too little memory.
  bool time(const Conv2dShape& shape, Results& results, int* count) const {
    std::size_t workspace = 0;
    for (int i = 0; i < Pass::kAlgorithms; ++i) {
      bool there = false;
      workspace = std::max(workspace, workspace_of(static_cast<Algorithm>(i), &there));
    }
    std::size_t free = 0, total = 0;
    cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    const std::size_t needed = TimingMemory::bytes(shape, context_.device) + workspace;
    if (needed > free) {
      spdlog::warn(
          "{}: {} of GPU memory free, {} needed to time its algorithms; cuDNN's guess is "
          "taken, which may be slower",
          what_, byte_size_text(free), byte_size_text(needed));
      return false;
    }
    TimingMemory memory(shape, context_.device, workspace);
    require(Pass::time(context_.cudnn.get(), descriptors_, descriptor_.get(), memory.memory(),
                       static_cast<int>(results.size()), count, results.data()),
            "timing the algorithms");
    return true;
  }

  const ConvolutionContext context_;
  const ConvolutionDescriptors& descriptors_;
  const std::string what_;
  CudnnConvolution descriptor_;
  Algorithm algorithm_{};
  std::size_t workspace_bytes_ = 0;
};

/// Backward passes are made when they are first called. An evaluation never calls them, and the
/// gradient of a network's images is not needed: for their three channels cuDNN has few algorithms.
class CudnnConv2d : public Conv2d {
 public:
  CudnnConv2d(const ConvolutionContext& context, const Conv2dShape& shape)
      : Conv2d(shape, context.device.activations),
        context_(context),
        device_(context.device),
        descriptors_(descriptors_of(context, shape)) {
    make(forward_);
  }

 private:
  void run_forward(const Tensor& x, const Tensor& w, const Tensor& y) override {
    forward_->run({.x = x.data, .w = w.data, .y = y.data}, 0.f);
  }
  void run_backward_data(const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    make(backward_data_);
    backward_data_->run({.x = dx.data, .w = w.data, .y = dy.data}, 0.f);
  }
  void run_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                            bool accumulate) override {
    make(backward_weights_, dw_bytes());
    if (device_.activations == DType::kFloat32) {
      backward_weights_->run({.x = x.data, .w = dw.data, .y = dy.data}, accumulate ? 1.f : 0.f);
      return;
    }
    // cuDNN can only write dw in the type of its inputs.
    const Tensor narrow(device_.scratch.data() + dw_offset(), device_.activations,
                        shape_.w_shape());
    backward_weights_->run({.x = x.data, .w = narrow.data, .y = dy.data}, 0.f);
    add_as_float32(device_, narrow, dw, accumulate);
  }

  static ConvolutionDescriptors descriptors_of(const ConvolutionContext& context,
                                               const Conv2dShape& s) {
    const std::string what = text(s, context.device);
    const DType type = context.device.activations;
    return {.x = context.cudnn.tensor(type, s.x_shape(), what),
            .y = context.cudnn.tensor(type, s.y_shape(), what),
            .w = context.cudnn.filter(type, s.w_shape(), what)};
  }

  /// Makes the pass, and reserves scratch for its workspace and `more` bytes after it.
  template <typename Pass>
  void make(std::optional<Convolution<Pass>>& pass, std::size_t more = 0) {
    if (pass) return;
    pass.emplace(context_, shape_, descriptors_);
    device_.scratch.reserve(aligned_up(pass->workspace_bytes()) + more);
  }

  [[nodiscard]] std::size_t dw_offset() const {
    return aligned_up(backward_weights_->workspace_bytes());
  }
  [[nodiscard]] std::size_t dw_bytes() const {
    return device_.activations == DType::kFloat32
               ? 0
               : static_cast<std::size_t>(shape_.w_shape().elements()) *
                     size_of(device_.activations);
  }

  const ConvolutionContext context_;
  CudaDevice& device_;
  const ConvolutionDescriptors descriptors_;
  std::optional<Convolution<ForwardPass>> forward_;
  std::optional<Convolution<BackwardDataPass>> backward_data_;
  std::optional<Convolution<BackwardWeightsPass>> backward_weights_;
};

}  // namespace

std::unique_ptr<Conv2d> CudaOps::conv2d(const Conv2dShape& shape) {
  if (depthwise_supports(shape)) return make_depthwise_conv2d(device_, shape);
  return std::make_unique<CudnnConv2d>(ConvolutionContext{device_, cudnn_, algorithms_}, shape);
}

}  // namespace pfc
