#include "worker/gradients/optimizer.h"

#include <cmath>

namespace pfc {
namespace {

// Keeps the quotient finite for a zero gradient; the value is torch.nn.utils.clip_grad_norm_'s.
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
  // The squares are summed in float64, so the norm is finite exactly when every gradient is.
  const double norm = std::sqrt(ops_.sum_of_squares(gradients)) / update.loss_scale;
  const Result result{.gradient_norm = norm, .finite = std::isfinite(norm)};
  if (!result.finite) return result;
  double scale = 1.0 / update.loss_scale;
  if (options_.clip_norm > 0) scale *= std::min(1.0, options_.clip_norm / (norm + kClipEpsilon));

  if (options_.kind == OptimizerKind::kSgd) {
    ops_.sgd({.lr = static_cast<float>(update.lr),
              .momentum = static_cast<float>(options_.momentum),
              .weight_decay = static_cast<float>(options_.weight_decay)},
             static_cast<float>(scale), gradients, weights, momentum(), update.operands);
    return result;
  }
  ops_.adamw(adamw_options(update.lr, options_.weight_decay, update.number),
             static_cast<float>(scale), gradients, weights, momentum(), second(), update.operands);
  return result;
}

Tensor Optimizer::momentum() const { return flat(momentum_, count_); }

Tensor Optimizer::second() const { return flat(second_, count_); }

}  // namespace pfc
