// One pass over the backbone's flat arena.
#pragma once

#include <cstdint>
#include <memory>

#include "common/config/config.h"
#include "kernels/ops.h"

namespace pfc {

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  double momentum = 0.9;
  double weight_decay = 5e-4;
  double clip_norm = 5.0;  ///< global L2 norm; 0: off
};

/// Owns momentum buffers of the arena's size. `gradients` are already summed over all workers and
/// micro-batches.
class Optimizer {
 public:
  Optimizer(Ops& ops, const OptimizerOptions& options, std::int64_t count);
  /// Bytes of device memory for `count` weights: one moment, or two for AdamW.
  [[nodiscard]] static std::size_t bytes(OptimizerKind kind, std::int64_t count) {
    return moment_bytes(count) * (kind == OptimizerKind::kAdamW ? 2 : 1);
  }

  struct Result {
    double gradient_norm = 0;  ///< before clipping; 0 when clipping is off
    bool finite = true;        ///< false: nothing was updated
  };
  struct Update {
    double lr = 0.1;
    std::int64_t number = 1;  ///< from 1: AdamW's bias correction
    double loss_scale = 1;    ///< gradients carry it; the result's norm does not
  };
  Result step(const Tensor& gradients, const Tensor& weights, const Update& update);

  [[nodiscard]] Tensor momentum() const;  ///< SGD's velocity or AdamW's m, [count]
  [[nodiscard]] Tensor second() const;    ///< AdamW's v; null for SGD
 private:
  static std::size_t moment_bytes(std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(float);
  }

  Ops& ops_;
  OptimizerOptions options_;
  std::int64_t count_;
  std::unique_ptr<Buffer> momentum_;
  std::unique_ptr<Buffer> second_;
};

}  // namespace pfc
