// One pass of a convolution with cuDNN, and its algorithm.
#pragma once

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "common/byte_size.h"
#include "kernels/cuda/convolution/convolution_passes.h"
#include "kernels/cuda/convolution/own_kernels.h"
#include "kernels/cuda/libraries/algorithm_cache.h"
#include "kernels/cuda/scratch.h"

namespace pfc {

/// Objects shared by all convolutions of a device. REQUIRES: they outlive the convolutions.
struct ConvolutionContext {
  CudaDevice& device;
  Ops& ops;
  Cudnn& cudnn;
  AlgorithmCache& algorithms;
};

/// A convolution for cuDNN. All its tensors have the same type.
struct CudnnProblem {
  Conv2dShape shape;
  DType type = DType::kFloat32;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;  ///< for float32; the default rounds to TF32
  /// Excludes algorithms that multiply transformed numbers, because they lose digits.
  bool every_digit = false;

  /// Returns a description for messages, which is also the key in the algorithm cache.
  [[nodiscard]] std::string text() const {
    const Conv2dShape& s = shape;
    const bool tf32 = type == DType::kFloat32 && math != CUDNN_FMA_MATH;
    return "convolution " + std::to_string(s.batch) + "x" + std::to_string(s.in_h) + "x" +
           std::to_string(s.in_w) + "x" + std::to_string(s.in_c) + " to " +
           std::to_string(s.out_c) + " kernel " + std::to_string(s.kernel) + " stride " +
           std::to_string(s.stride) + " pad " + std::to_string(s.pad) + " groups " +
           std::to_string(s.groups) + " " + (tf32 ? "tf32" : name_of(type));
  }
};

/// Memory for timing algorithms. x, w and y contain random numbers, because a GPU computes faster
/// on zeros, which cost it less power.
class TimingMemory {
 public:
  TimingMemory(const CudnnProblem& p, CudaDevice& device, std::size_t workspace_bytes)
      : x_(bytes_of(p.shape.x_shape(), p)),
        w_(bytes_of(p.shape.w_shape(), p)),
        y_(bytes_of(p.shape.y_shape(), p)),
        workspace_(workspace_bytes) {
    fill_random(device, {x_.data(), p.type, p.shape.x_shape()});
    fill_random(device, {w_.data(), p.type, p.shape.w_shape()});
    fill_random(device, {y_.data(), p.type, p.shape.y_shape()});
  }
  static std::size_t bytes(const CudnnProblem& p) {
    return bytes_of(p.shape.x_shape(), p) + bytes_of(p.shape.w_shape(), p) +
           bytes_of(p.shape.y_shape(), p);
  }
  [[nodiscard]] ConvolutionMemory memory() {
    return {.x = x_.data(),
            .w = w_.data(),
            .y = y_.data(),
            .workspace = workspace_.data(),
            .workspace_bytes = workspace_.bytes()};
  }

 private:
  static std::size_t bytes_of(const Shape& shape, const CudnnProblem& p) {
    return static_cast<std::size_t>(shape.elements()) * size_of(p.type);
  }
  CudaBuffer x_, w_, y_, workspace_;
};

/// Pass is ForwardPass, BackwardDataPass or BackwardWeightsPass.
template <typename Pass>
class Convolution {
 public:
  /// Throws InputError for a tensor that is too large for cuDNN.
  Convolution(const ConvolutionContext& context, const CudnnProblem& p)
      : problem(p),
        context_(context),
        what_(p.text() + ", " + Pass::kName),
        descriptors_{.x = context.cudnn.tensor(p.type, p.shape.x_shape(), what_),
                     .y = context.cudnn.tensor(p.type, p.shape.y_shape(), what_),
                     .w = context.cudnn.filter(p.type, p.shape.w_shape(), what_)} {
    make_descriptor(problem.shape);
  }

  const CudnnProblem problem;
  [[nodiscard]] const std::string& what() const { return what_; }
  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }

  /// Selects the fastest deterministic algorithm that needs at most kMostConvolutionWorkspace. If
  /// there is none, selects one that fits into free GPU memory. Returns false if cuDNN has none.
  [[nodiscard]] bool choose() {
    if (take_kept()) return true;
    Results results{};
    int count = 0;
    if (context_.algorithms.on_disk() && time(results, &count)) {
      // sorted by cuDNN, fastest first
      if (const Result* best = first(results, count, kMostConvolutionWorkspace, kSameBits)) {
        return take(context_.algorithms.keep(what_, choice_of(*best)), kMostConvolutionWorkspace);
      }
    }
    guess(results, &count);
    return take_first(results, count, kMostConvolutionWorkspace, kSameBits) ||
           take_first(results, count, free_bytes(), kSameBits);
  }

  /// Selects cuDNN's estimate of the fastest, deterministic or not. Returns false if it has none.
  [[nodiscard]] bool choose_any() {
    Results results{};
    int count = 0;
    guess(results, &count);
    return take_first(results, count, std::max(kMostConvolutionWorkspace, free_bytes()), kAnyBits);
  }

  /// REQUIRES: an algorithm was selected, and the device's scratch memory has workspace_bytes().
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
  using Results = std::array<Result, Pass::kAlgorithms * 4>;  // 4 math types for each
  enum Bits { kSameBits, kAnyBits };

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
    set_math(problem.math);
  }

  void set_math(cudnnMathType_t math) {
    require(cudnnSetConvolutionMathType(descriptor_.get(), math), "cudnnSetConvolutionMathType");
  }

  // Returns the workspace size of an algorithm. Returns nullopt if cuDNN does not support the
  // algorithm for this shape, or if it needs more than `most` bytes.
  [[nodiscard]] std::optional<std::size_t> workspace_of(Algorithm algorithm,
                                                        std::size_t most) const {
    std::size_t bytes = 0;
    const bool there = Pass::workspace(context_.cudnn.get(), descriptors_, descriptor_.get(),
                                       algorithm, &bytes) == CUDNN_STATUS_SUCCESS;
    return there && bytes <= most ? std::optional(bytes) : std::nullopt;
  }

  bool take(const AlgorithmChoice& choice, std::size_t most) {
    if (choice.algorithm < 0 || choice.algorithm >= Pass::kAlgorithms) return false;
    algorithm_ = static_cast<Algorithm>(choice.algorithm);
    set_math(static_cast<cudnnMathType_t>(choice.math));
    const std::optional<std::size_t> bytes = workspace_of(algorithm_, most);
    workspace_bytes_ = bytes.value_or(0);
    if (!bytes) set_math(problem.math);
    return bytes.has_value();
  }

  bool take_kept() {
    const std::optional<AlgorithmChoice> kept = context_.algorithms.find(what_);
    if (!kept) return false;
    if (take(*kept, kMostConvolutionWorkspace)) return true;
    context_.algorithms.forget(what_);
    return false;
  }

  [[nodiscard]] const Result* first(const Results& results, int count, std::size_t most,
                                    Bits bits) const {
    const auto end = results.begin() + count;
    const auto found = std::find_if(results.begin(), end, [&](const Result& r) {
      return r.status == CUDNN_STATUS_SUCCESS && r.memory <= most &&
             (bits == kAnyBits || r.determinism == CUDNN_DETERMINISTIC) &&
             (!problem.every_digit || Pass::sums_products(r.algo));
    });
    return found == end ? nullptr : &*found;
  }

  bool take_first(const Results& results, int count, std::size_t most, Bits bits) {
    const Result* const found = first(results, count, most, bits);
    return found != nullptr && take(choice_of(*found), most);
  }

  // cuDNN may report the default math type for an algorithm that it timed without TF32. That math
  // type would round to TF32, so the requested one is used instead.
  [[nodiscard]] AlgorithmChoice choice_of(const Result& r) const {
    const cudnnMathType_t asked = problem.math;
    return {.algorithm = static_cast<int>(r.algo),
            .math = static_cast<int>(asked == CUDNN_FMA_MATH ? asked : r.mathType)};
  }

  [[nodiscard]] static std::size_t free_bytes() {
    std::size_t free = 0, total = 0;
    cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
  }

  void guess(Results& results, int* count) const {
    require(Pass::guess(context_.cudnn.get(), descriptors_, descriptor_.get(),
                        static_cast<int>(results.size()), count, results.data()),
            "an estimate of the fastest algorithm");
  }

  /// Times the algorithms. Returns false if there is too little memory.
  bool time(Results& results, int* count) const {
    std::size_t workspace = 0;
    for (int i = 0; i < Pass::kAlgorithms; ++i) {
      const auto algorithm = static_cast<Algorithm>(i);
      workspace =
          std::max(workspace, workspace_of(algorithm, kMostConvolutionWorkspace).value_or(0));
    }
    const std::size_t free = free_bytes(), needed = TimingMemory::bytes(problem) + workspace;
    if (needed > free) {
      spdlog::warn(
          "{}: found {} of free GPU memory, but timing its algorithms needs {}; using cuDNN's "
          "guess, which may be slower",
          what_, byte_size_text(free), byte_size_text(needed));
      return false;
    }
    TimingMemory memory(problem, context_.device, workspace);
    require(Pass::time(context_.cudnn.get(), descriptors_, descriptor_.get(), memory.memory(),
                       static_cast<int>(results.size()), count, results.data()),
            "timing the algorithms");
    return true;
  }

  const ConvolutionContext context_;
  const std::string what_;
  const ConvolutionDescriptors descriptors_;
  CudnnConvolution descriptor_;
  Algorithm algorithm_{};
  std::size_t workspace_bytes_ = 0;
};

}  // namespace pfc
