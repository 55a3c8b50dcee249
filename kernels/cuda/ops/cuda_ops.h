// Ops on a GPU: every call enqueues its work on the compute stream and returns. Each group of
// members is defined in the file named above it. Activations are float32, bfloat16 or float16 in
// memory; arithmetic is float32, and long sums are float64 or added pairwise.
#pragma once

#include "kernels/cuda/libraries/algorithm_cache.h"
#include "kernels/cuda/libraries/cublas_lt.h"
#include "kernels/cuda/libraries/cudnn.h"
#include "kernels/cuda/runtime/arena.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/ops.h"

namespace pfc {

class CudaOps : public Ops {
 public:
  explicit CudaOps(const CudaOptions& options);

  [[nodiscard]] CudaDevice& device() { return device_; }

  // cuda_ops.cc
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] bool on_host() const override { return false; }
  [[nodiscard]] DType activation_type() const override { return device_.activations; }
  void use_activations(DType type) override { device_.activations = type; }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override;
  void reserve(std::size_t bytes) override { arena_ = std::make_shared<CudaArena>(bytes); }
  [[nodiscard]] DeviceMemory memory() const override;
  void copy_to_device(const Tensor& device, const void* host) override;
  void copy_to_host(void* host, const Tensor& device) override;
  std::unique_ptr<Event> record() override;
  void wait_for(const Event& event) override;
  void synchronize() override { device_.compute.synchronize(); }
  [[nodiscard]] std::size_t scratch_bytes() const override { return device_.scratch.bytes(); }

  // copy_queue.cc, graph.cc
  std::unique_ptr<CopyQueue> copy_queue() override;
  std::unique_ptr<RepeatedWork> repeat(std::function<void()> enqueue) override;

  // kernels/cuda/convolution/conv2d.cc, kernels/cuda/batch_norm/batch_norm.cu
  std::unique_ptr<Conv2d> conv2d(const Conv2dShape& shape) override;
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormShape& shape) override;
  std::unique_ptr<Attention> attention(const AttentionShape& shape) override;  // attention.cu

 private:
  void run_copy(const Tensor& from, const Tensor& to) override;  // cuda_ops.cc

  // elementwise.cu
  void run_fill(const Tensor& t, float value) override;
  void run_convert(const Tensor& from, const Tensor& to) override;
  void run_normalise_images(const Tensor& images, const Tensor& y) override;
  void run_add(const Tensor& a, const Tensor& b, const Tensor& y) override;
  void run_scale(const Tensor& x, float factor, const Tensor& y) override;
  void run_average(const Tensor& value, float part, const Tensor& average) override;
  void run_add_bias(const Tensor& y, const Tensor& bias, bool relu6) override;
  void run_relu(const Tensor& y) override;
  void run_relu_backward(const Tensor& y, const Tensor& dy, float bound) override;
  void run_column_sums(const Tensor& x, const Tensor& sums, bool accumulate,
                       const Tensor& places) override;
  void run_update_running_statistics(const RunningStatistics& r) override;

  // gemm.cc, dropout.cu
  void run_gemm(const Gemm& g) override;
  void run_dropout(const Tensor& x, const Tensor& y, const DropoutOptions& o) override;

  // pooling.cu
  void run_max_pool(const Conv2dShape& shape, const Tensor& x, const Tensor& y,
                    const Tensor& winners) override;
  void run_max_pool_backward(const Conv2dShape& shape, const Tensor& dy, const Tensor& winners,
                             const Tensor& dx) override;
  void run_average_pool(const Tensor& x, const Tensor& y) override;
  void run_average_pool_backward(const Tensor& dy, const Tensor& dx, bool accumulate) override;
  void run_gate(const Tensor& x, const Tensor& logits, const Tensor& residual,
                const Tensor& y) override;
  void run_gate_backward(const Tensor& dy, const Tensor& x, const Tensor& logits, const Tensor& dx,
                         const Tensor& dlogits) override;

  // layer_norm.cu, tokens.cu
  void run_layer_norm(const LayerNorm& l) override;
  void run_layer_norm_backward(const LayerNormBackward& b) override;
  void run_choose_tokens(const Tensor& places, const TokenMask& mask) override;
  void run_keep_tokens(const Tensor& x, const Tensor& places, const Tensor& y) override;
  void run_restore_tokens(const Tensor& x, const Tensor& places, const Tensor& token,
                          const Tensor& y) override;

  // normalise.cu
  void run_normalise_rows(const Tensor& x, const Tensor& y, const Tensor& inverse_norm) override;
  void run_normalise_rows_backward(const Tensor& dy, const Tensor& y, const Tensor& inverse_norm,
                                   const Tensor& dx) override;

  // optimizer.cu
  double run_sum_of_squares(const Tensor& x) override;
  void run_sgd(const SgdOptions& o, float gradient_scale, const Tensor& gradient,
               const Tensor& weight, const Tensor& velocity, const Tensor& operand) override;
  void run_adamw(const AdamWOptions& o, float gradient_scale, const Tensor& gradient,
                 const Tensor& weight, const Tensor& m, const Tensor& v,
                 const Tensor& operand) override;

  CudaDevice device_;
  std::shared_ptr<CudaArena> arena_;  // nullptr before reserve(); shared with its buffers
  CublasLt cublas_;
  Cudnn cudnn_;
  AlgorithmCache algorithms_;
};

}  // namespace pfc
