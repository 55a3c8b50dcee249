// Batch norm, fused with the layer that follows: PReLU, or the sum with a residual branch.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/comm.h"
#include "model/networks/layers/layer.h"

namespace pfc {

/// The inputs, parameters and output of a batch norm. Borrowed; optional ones may be null.
struct BatchNormVariables {
  Variable* x = nullptr;
  Variable* gamma = nullptr;
  Variable* beta = nullptr;
  Variable* running_mean = nullptr;
  Variable* running_variance = nullptr;
  Variable* slope = nullptr;     ///< slope of the PReLU
  Variable* residual = nullptr;  ///< added to the result
  Variable* y = nullptr;
  bool frozen = false;  ///< uses the running statistics in training, and does not update them
  float epsilon = 1e-5f;
};

/// Momentum 0.1, as in arcface_torch. With `sync`, the statistics are those of all workers; their
/// batches have equal size. The gradients of gamma, beta and slope are still sums over this
/// worker's batch, because the gradient reducer adds the gradients of all workers.
class BatchNormLayer : public Layer {
 public:
  BatchNormLayer(Ops& ops, const BatchNormVariables& variables, Comm* sync);

  /// Makes this layer compute the statistics that `next` needs, while it writes its output. Does
  /// nothing if `next` is frozen. REQUIRES: `next` normalises that output.
  void feed_statistics_to(BatchNormLayer& next);

  [[nodiscard]] bool frozen() const { return v_.frozen; }
  [[nodiscard]] bool repeatable() const override { return sync_ == nullptr; }
  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  /// Mean and variance are stored in one tensor [2 C], so one collective sends both.
  [[nodiscard]] Tensor mean() const { return half(statistics_, 0); }
  [[nodiscard]] Tensor variance() const { return half(statistics_, 1); }
  [[nodiscard]] Tensor half(const Tensor& pair, int which) const;
  /// Returns whether backward() needs the sums over this worker's rows.
  [[nodiscard]] bool reduces() const;
  void combine_over_workers();
  void update_running_statistics();
  void store_gradient(const Tensor& sum, const Variable* parameter, bool accumulate) const;

  Ops& ops_;
  const BatchNormVariables v_;
  Comm* const sync_;  // null: statistics of this worker only
  const std::int64_t channels_;
  const std::int64_t rows_;        // rows of this worker
  const std::int64_t total_rows_;  // rows of all workers that share the statistics
  std::unique_ptr<BatchNorm> norm_;
  std::unique_ptr<BatchNorm> over_workers_;  // combines the workers' statistics; null: no sync
  BatchNormLayer* next_ = nullptr;           // receives its statistics from this layer
  bool statistics_are_fed_ = false;
  bool adds_to_dx_ = false;  // another layer that reads x has already written x's gradient

  Tensor statistics_;  // [2 C]: mean, biased variance
  Tensor sums_;        // [2 C]: sum dz, sum dz xhat
  Tensor dslope_;      // [C]
  Tensor gathered_;    // [W, 2 C]; sync only
  Tensor spread_;      // [2 C]: variances over workers; sync only
};

}  // namespace pfc
