// Ops that record calls instead of computing: they count a training step's work
// (docs/capacity.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/ops.h"

namespace pfc {

/// One call of an op, and the work that it would do.
struct OpWork {
  double flops = 0;  ///< number of multiplications and additions
  double bytes = 0;  ///< size of its tensors, counted once for each read or write
};

using OpWorks = std::vector<OpWork>;

/// Allocates addresses but no memory, so a network of any size needs none. Tensors must not be
/// accessed. Copies to and from the host are neither made nor recorded.
class RecordingOps : public Ops {
 public:
  explicit RecordingOps(DType activations) : activations_(activations) {}

  /// Returns the ops recorded since the last call.
  OpWorks take() { return std::exchange(works_, {}); }

  [[nodiscard]] std::string description() const override { return "a plan"; }
  [[nodiscard]] bool on_host() const override { return false; }
  [[nodiscard]] DType activation_type() const override { return activations_; }
  void use_activations(DType type) override { activations_ = type; }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override;
  void reserve(std::size_t /*bytes*/) override {}
  [[nodiscard]] DeviceMemory memory() const override { return {}; }
  void copy_to_device(const Tensor& /*device*/, const void* /*host*/) override {}
  void copy_to_host(void* /*host*/, const Tensor& /*device*/) override {}
  std::unique_ptr<Event> record() override;
  void wait_for(const Event& /*event*/) override {}
  std::unique_ptr<CopyQueue> copy_queue() override { return nullptr; }
  std::unique_ptr<RepeatedWork> repeat(std::function<void()> enqueue) override;
  void synchronize() override {}
  std::unique_ptr<Conv2d> conv2d(const Conv2dShape& shape) override;
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormShape& shape) override;
  std::unique_ptr<Attention> attention(const AttentionShape& shape) override;
  [[nodiscard]] std::size_t scratch_bytes() const override { return 0; }

 private:
  void run_copy(const Tensor& from, const Tensor& to) override;
  void run_fill(const Tensor& t, float value) override;
  void run_convert(const Tensor& from, const Tensor& to) override;
  void run_normalise_images(const Tensor& images, const Tensor& y) override;
  void run_update_running_statistics(const RunningStatistics& r) override;
  void run_gemm(const Gemm& g) override;
  void run_add(const Tensor& a, const Tensor& b, const Tensor& y) override;
  void run_scale(const Tensor& x, float factor, const Tensor& y) override;
  void run_average(const Tensor& value, float part, const Tensor& average) override;
  void run_add_bias(const Tensor& y, const Tensor& bias, bool relu6) override;
  void run_relu(const Tensor& y) override;
  void run_relu_backward(const Tensor& y, const Tensor& dy, float bound) override;
  void run_column_sums(const Tensor& x, const Tensor& sums, bool accumulate,
                       const Tensor& places) override;
  void run_dropout(const Tensor& x, const Tensor& y, const DropoutOptions& o) override;
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
  void run_layer_norm(const LayerNorm& l) override;
  void run_layer_norm_backward(const LayerNormBackward& b) override;
  void run_choose_tokens(const Tensor& places, const TokenMask& mask) override;
  void run_keep_tokens(const Tensor& x, const Tensor& places, const Tensor& y) override;
  void run_restore_tokens(const Tensor& x, const Tensor& places, const Tensor& token,
                          const Tensor& y) override;
  void run_normalise_rows(const Tensor& x, const Tensor& y, const Tensor& inverse_norm) override;
  void run_normalise_rows_backward(const Tensor& dy, const Tensor& y, const Tensor& inverse_norm,
                                   const Tensor& dx) override;
  double run_sum_of_squares(const Tensor& x) override;
  void run_sgd(const SgdOptions& o, float gradient_scale, const Tensor& gradient,
               const Tensor& weight, const Tensor& velocity, const Tensor& operand) override;
  void run_adamw(const AdamWOptions& o, float gradient_scale, const Tensor& gradient,
                 const Tensor& weight, const Tensor& m, const Tensor& v,
                 const Tensor& operand) override;

  DType activations_;
  OpWorks works_;
  std::uintptr_t next_address_ = std::uintptr_t{1} << 20;
};

}  // namespace pfc
