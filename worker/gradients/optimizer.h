// Updates the backbone's flat weights by SGD or AdamW: one call per parameter group.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/config/config.h"
#include "kernels/ops.h"
#include "worker/gradients/parameter_groups.h"

namespace pfc {

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  double momentum = 0.9;
  double clip_norm = 5.0;  ///< gradients with a larger L2 norm are scaled down to it; 0: never
};

/// Owns the moments, tensors of the weights' size. ops is borrowed.
class Optimizer {
 public:
  /// `count`: number of weights. Weights outside of the groups, and their moments, do not change.
  Optimizer(Ops& ops, const OptimizerOptions& options, std::int64_t count,
            std::vector<ParameterGroup> groups);
  /// Bytes of device memory for `count` weights: one moment, or two for AdamW.
  [[nodiscard]] static std::size_t bytes(OptimizerKind kind, std::int64_t count) {
    return moment_bytes(count) * (kind == OptimizerKind::kAdamW ? 2 : 1);
  }

  struct Result {
    double gradient_norm = 0;  ///< L2, before clipping, without the loss scale
    bool finite = true;        ///< false: a gradient is not finite, and nothing was updated
  };
  struct Update {
    double lr = 0.1;
    std::int64_t number = 1;  ///< number of the update, from 1; for AdamW's bias correction
    double loss_scale = 1;    ///< factor already in the gradients
    /// Receives the new weights in the activations' type (Backbone::operands()), unless null.
    Tensor operands = {};
  };
  /// weights [count]. `gradients` are for all weights from some offset to the end. REQUIRES: they
  /// are summed over all workers and micro-batches, and include the weights of all groups.
  Result step(const Tensor& gradients, const Tensor& weights, const Update& update);

  [[nodiscard]] Tensor momentum() const;  ///< SGD's velocity or AdamW's m, [count]
  [[nodiscard]] Tensor second() const;    ///< AdamW's v, [count]; null for SGD

 private:
  static std::size_t moment_bytes(std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(float);
  }

  void update(const ParameterGroup& group, float scale, const Tensor& gradients,
              const Tensor& weights, const Update& update) const;

  Ops& ops_;
  OptimizerOptions options_;
  std::int64_t count_;
  std::vector<ParameterGroup> groups_;
  std::unique_ptr<Buffer> momentum_;
  std::unique_ptr<Buffer> second_;
};

}  // namespace pfc
