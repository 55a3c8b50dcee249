#include "worker/gradients/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pfc {
namespace {

// Keeps the quotient finite for a zero gradient; the value is torch.nn.utils.clip_grad_norm_'s.
constexpr double kClipEpsilon = 1e-6;

Tensor flat(const std::unique_ptr<Buffer>& buffer, std::int64_t count) {
  return buffer ? Tensor(buffer->data(), DType::kFloat32, Shape{count}) : Tensor();
}

/// Returns elements [offset, offset + count) of a flat tensor, or null if the tensor is null.
Tensor part(const Tensor& flat, std::int64_t offset, std::int64_t count) {
  if (!flat) return {};
  auto* const data = static_cast<std::byte*>(flat.data);
  return {data + offset * static_cast<std::int64_t>(size_of(flat.dtype)), flat.dtype, Shape{count}};
}

}  // namespace

Optimizer::Optimizer(Ops& ops, const OptimizerOptions& options, std::int64_t count,
                     std::vector<ParameterGroup> groups)
    : ops_(ops),
      options_(options),
      count_(count),
      groups_(std::move(groups)),
      momentum_(ops.allocate(moment_bytes(count))) {
  if (options.kind == OptimizerKind::kAdamW) second_ = ops.allocate(moment_bytes(count));
}

Optimizer::Result Optimizer::step(const Tensor& gradients, const Tensor& weights,
                                  const Update& update) {
  const bool enough = groups_.empty() || gradients.elements() >= count_ - groups_[0].offset;
  check(enough && gradients.elements() <= count_ && weights.elements() == count_ &&
            update.number >= 1,
        "Optimizer: wrong sizes, or an update number below 1");
  // The squares are summed in float64, so the norm is finite exactly when every gradient is.
  const double norm = std::sqrt(ops_.sum_of_squares(gradients)) / update.loss_scale;
  const Result result{.gradient_norm = norm, .finite = std::isfinite(norm)};
  if (!result.finite) return result;
  double scale = 1.0 / update.loss_scale;
  if (options_.clip_norm > 0) scale *= std::min(1.0, options_.clip_norm / (norm + kClipEpsilon));
  for (const ParameterGroup& group : groups_) {
    this->update(group, static_cast<float>(scale), gradients, weights, update);
  }
  return result;
}

void Optimizer::update(const ParameterGroup& group, float scale, const Tensor& gradients,
                       const Tensor& weights, const Update& update) const {
  const auto of = [&](const Tensor& flat) { return part(flat, group.offset, group.count); };
  const std::int64_t without_gradient = count_ - gradients.elements();
  const Tensor g = part(gradients, group.offset - without_gradient, group.count);
  const Tensor w = of(weights), m = of(momentum()), operands = of(update.operands);
  const double lr = update.lr * group.lr;
  if (options_.kind == OptimizerKind::kSgd) {
    return ops_.sgd({.lr = static_cast<float>(lr),
                     .momentum = static_cast<float>(options_.momentum),
                     .weight_decay = static_cast<float>(group.weight_decay)},
                    scale, g, w, m, operands);
  }
  ops_.adamw(adamw_options(lr, group.weight_decay, update.number), scale, g, w, m, of(second()),
             operands);
}

Tensor Optimizer::momentum() const { return flat(momentum_, count_); }

Tensor Optimizer::second() const { return flat(second_, count_); }

}  // namespace pfc
