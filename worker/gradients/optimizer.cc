#include "worker/gradients/optimizer.h"

#include <cmath>

namespace pfc {
namespace {

// torch.nn.utils.clip_grad_norm_: keeps the quotient finite for a zero gradient.
constexpr double kClipEpsilon = 1e-6;

Tensor flat(const std::unique_ptr<Buffer>& buffer, std::int64_t count) {
  return buffer ? Tensor(buffer->data(), DType::kFloat32, Shape{count}) : Tensor();
}

}  // namespace

Optimizer::Optimizer(Ops& ops, const OptimizerOptions& options, std::int64_t count)
    : ops_(ops), options_(options), count_(count), momentum_(ops.allocate(moment_bytes(count))) {
  if (options.kind == OptimizerKind::kAdamW) second_ = ops.allocate(moment_bytes(count));
}

Optimizer::Result Optimizer::step(const Tensor& gradients, const Tensor& weights,
                                  const Update& update) {
  check(gradients.elements() == count_ && weights.elements() == count_ && update.number >= 1,
        "Optimizer: wrong sizes, or an update number below 1");
  Result result;
  double scale = 1.0 / update.loss_scale;
  if (options_.clip_norm > 0) {
    // Summed in float64: it is finite exactly when every gradient is.
    result.gradient_norm = std::sqrt(ops_.sum_of_squares(gradients)) / update.loss_scale;
    result.finite = std::isfinite(result.gradient_norm);
    scale *= std::min(1.0, options_.clip_norm / (result.gradient_norm + kClipEpsilon));
  } else {
    result.finite = ops_.all_finite(gradients);
  }
  if (!result.finite) return result;

  if (options_.kind == OptimizerKind::kSgd) {
    ops_.sgd({.lr = static_cast<float>(update.lr),
              .momentum = static_cast<float>(options_.momentum),
              .weight_decay = static_cast<float>(options_.weight_decay)},
             static_cast<float>(scale), gradients, weights, momentum());
    return result;
  }
  ops_.adamw(adamw_options(update.lr, options_.weight_decay, update.number),
             static_cast<float>(scale), gradients, weights, momentum(), second());
  return result;
}

Tensor Optimizer::momentum() const { return flat(momentum_, count_); }

Tensor Optimizer::second() const { return flat(second_, count_); }

}  // namespace pfc
