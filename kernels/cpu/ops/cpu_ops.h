// Ops on a CPU. Each group of members is defined in the file named above it.
#pragma once

#include "kernels/cpu/ops/bf16_products.h"
#include "kernels/cpu/runtime/cpu_device.h"
#include "kernels/ops.h"

namespace pfc {

class CpuOps : public Ops {
 public:
  /// cpu_threads: 0 means all cores that this process may use. activations: float32, or bfloat16
  /// if cpu_has_bfloat16(). Tests pass other kernels than this machine's fastest ones.
  explicit CpuOps(int cpu_threads, const VectorKernels& kernels = best_vector_kernels(),
                  DType activations = DType::kFloat32)
      : device_(cpu_threads, kernels), activations_(activations) {}

  [[nodiscard]] const Threads& threads() const { return device_.threads; }

  // cpu_ops.cc
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] bool on_host() const override { return true; }
  [[nodiscard]] DType activation_type() const override { return activations_; }
  void use_activations(DType type) override { activations_ = type; }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override;
  void reserve(std::size_t /*bytes*/) override {}
  void use_threads(int count) override { device_.threads = Threads(count); }
  [[nodiscard]] DeviceMemory memory() const override { return {}; }
  void copy_to_device(const Tensor& device, const void* host) override;
  void copy_to_host(void* host, const Tensor& device) override;
  std::unique_ptr<Event> record() override;
  void wait_for(const Event& /*event*/) override {}
  std::unique_ptr<CopyQueue> copy_queue() override { return nullptr; }
  std::unique_ptr<RepeatedWork> repeat(std::function<void()> enqueue) override;
  void synchronize() override {}
  [[nodiscard]] std::size_t scratch_bytes() const override { return device_.scratch.bytes(); }

  // kernels/cpu/convolution/conv2d.cc, batch_norm.cc, attention.cc, gemm.cc
  std::unique_ptr<Conv2d> conv2d(const Conv2dShape& shape) override;
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormShape& shape) override;
  std::unique_ptr<Attention> attention(const AttentionShape& shape) override;
  void plan_gemm(const Gemm& g) override;

 private:
  // cpu_ops.cc
  void run_copy(const Tensor& from, const Tensor& to) override;
  void run_fill(const Tensor& t, float value) override;

  // elementwise.cc
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

  // gemm.cc, dropout.cc
  void run_gemm(const Gemm& g) override;
  void run_dropout(const Tensor& x, const Tensor& y, const DropoutOptions& o) override;

  // pooling.cc
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

  // layer_norm.cc, tokens.cc
  void run_layer_norm(const LayerNorm& l) override;
  void run_layer_norm_backward(const LayerNormBackward& b) override;
  void run_choose_tokens(const Tensor& places, const TokenMask& mask) override;
  void run_keep_tokens(const Tensor& x, const Tensor& places, const Tensor& y) override;
  void run_restore_tokens(const Tensor& x, const Tensor& places, const Tensor& token,
                          const Tensor& y) override;

  // normalise.cc
  void run_normalise_rows(const Tensor& x, const Tensor& y, const Tensor& inverse_norm) override;
  void run_normalise_rows_backward(const Tensor& dy, const Tensor& y, const Tensor& inverse_norm,
                                   const Tensor& dx) override;

  // optimizer.cc
  double run_sum_of_squares(const Tensor& x) override;
  void run_sgd(const SgdOptions& o, float gradient_scale, const Tensor& gradient,
               const Tensor& weight, const Tensor& velocity, const Tensor& operand) override;
  void run_adamw(const AdamWOptions& o, float gradient_scale, const Tensor& gradient,
                 const Tensor& weight, const Tensor& m, const Tensor& v,
                 const Tensor& operand) override;

  CpuDevice device_;
  DType activations_;
  Bf16Products products_{device_};
};

}  // namespace pfc
