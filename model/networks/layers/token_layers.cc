#include "model/networks/layers/token_layers.h"

namespace pfc {

Tensor tokens_of(const Tensor& x, const Rows& tokens, bool training) {
  return {x.data, x.dtype, {x.shape[0], tokens.of(training), x.shape[2]}};
}

PositionLayer::PositionLayer(Ops& ops, Variable& x, Variable& bias, Variable& positions,
                             Variable& y)
    : ops_(ops), x_(x), bias_(bias), positions_(positions), y_(y) {}

void PositionLayer::plan_forward(ActivationPlan& plan, bool /*training*/) {
  plan.use(x_.data);
  if (converts()) {
    plan.make(y_.data);
  } else {
    plan.make_in_place_of(y_.data, x_.data);
  }
}

void PositionLayer::plan_backward(ActivationPlan& plan) {
  plan.use(y_.gradient);
  if (!x_.needs_gradient) return;
  if (converts()) {
    plan.make(x_.gradient);
  } else {
    plan.make_in_place_of(x_.gradient, y_.gradient);
  }
}

void PositionLayer::forward(const ForwardPass& /*pass*/) {
  if (converts()) ops_.convert(x_.data, y_.data);
  ops_.add_bias(y_.data, bias_.data);
  ops_.add_bias(y_.data, positions_.data);
}

void PositionLayer::backward(bool accumulate) {
  for (const Variable* each : {&bias_, &positions_}) {
    if (each->needs_gradient) ops_.column_sums(y_.gradient, each->gradient, accumulate);
  }
  if (x_.needs_gradient && converts()) ops_.convert(y_.gradient, x_.gradient);
}

KeepLayer::KeepLayer(Ops& ops, const TokenMask& mask, const Rows& tokens, Variable& x, Variable& y)
    : ops_(ops),
      mask_(mask),
      tokens_(tokens),
      x_(x),
      y_(y),
      places_(nullptr, DType::kInt64, {x.data.shape[0], tokens.all}) {}

void KeepLayer::plan_forward(ActivationPlan& plan, bool training) {
  plan.use(x_.data);
  plan.make(y_.data);
  if (training) plan.make(places_);
}

void KeepLayer::plan_backward(ActivationPlan& plan) {
  plan.use(y_.gradient);
  plan.use(places_);
  if (x_.needs_gradient) plan.make(x_.gradient);
}

void KeepLayer::forward(const ForwardPass& pass) {
  if (!pass.training) return ops_.copy(x_.data, y_.data);
  mask_.step = static_cast<std::uint32_t>(pass.step);
  ops_.choose_tokens(places_, mask_);
  ops_.keep_tokens(x_.data, places_, tokens_of(y_.data, tokens_, true));
}

void KeepLayer::backward(bool /*accumulate*/) {
  if (!x_.needs_gradient) return;
  ops_.restore_tokens(tokens_of(y_.gradient, tokens_, true), places_, {}, x_.gradient);
}

RestoreLayer::RestoreLayer(Ops& ops, Tensor& places, const Rows& tokens, Variable& x,
                           Variable& token, Variable& y)
    : ops_(ops), places_(places), tokens_(tokens), x_(x), token_(token), y_(y) {}

void RestoreLayer::plan_forward(ActivationPlan& plan, bool training) {
  plan.use(x_.data);
  plan.make(y_.data);
  if (training) plan.use(places_);
}

void RestoreLayer::plan_backward(ActivationPlan& plan) {
  plan.use(y_.gradient);
  plan.use(places_);
  if (x_.needs_gradient) plan.make(x_.gradient);
}

void RestoreLayer::forward(const ForwardPass& pass) {
  if (!pass.training) return ops_.copy(x_.data, y_.data);
  ops_.restore_tokens(tokens_of(x_.data, tokens_, true), places_, token_.operand, y_.data);
}

void RestoreLayer::backward(bool accumulate) {
  if (token_.needs_gradient) {
    ops_.column_sums(y_.gradient, token_.gradient, accumulate, places_);
  }
  if (!x_.needs_gradient) return;
  ops_.keep_tokens(y_.gradient, places_, tokens_of(x_.gradient, tokens_, true));
}

LayerNormLayer::LayerNormLayer(Ops& ops, const Rows& tokens, Variable& x, Variable& gamma,
                               Variable& beta, Variable& y)
    : ops_(ops),
      tokens_(tokens),
      x_(x),
      gamma_(gamma),
      beta_(beta),
      y_(y),
      statistics_(nullptr, {x.data.shape[0], tokens.all, 2}) {}

void LayerNormLayer::plan_forward(ActivationPlan& plan, bool /*training*/) {
  plan.use(x_.data);
  plan.make(y_.data);
  plan.make(statistics_);
}

void LayerNormLayer::plan_backward(ActivationPlan& plan) {
  plan.use(y_.gradient);
  plan.use(x_.data);
  plan.use(statistics_);
  if (!x_.needs_gradient) return;
  adds_to_dx_ = plan.made(x_.gradient);
  if (adds_to_dx_) {
    plan.use(x_.gradient);
  } else {
    plan.make(x_.gradient);
  }
}

void LayerNormLayer::forward(const ForwardPass& pass) {
  ops_.layer_norm({.x = tokens_of(x_.data, tokens_, pass.training),
                   .gamma = gamma_.data,
                   .beta = beta_.data,
                   .y = tokens_of(y_.data, tokens_, pass.training),
                   .statistics = tokens_of(statistics_, tokens_, pass.training)});
}

void LayerNormLayer::backward(bool accumulate) {
  const Tensor dx = x_.needs_gradient ? tokens_of(x_.gradient, tokens_, true) : Tensor{};
  ops_.layer_norm_backward({.dy = tokens_of(y_.gradient, tokens_, true),
                            .x = tokens_of(x_.data, tokens_, true),
                            .statistics = tokens_of(statistics_, tokens_, true),
                            .gamma = gamma_.data,
                            .add = adds_to_dx_ ? dx : Tensor{},
                            .dx = dx,
                            .dgamma = gamma_.gradient,
                            .dbeta = beta_.gradient,
                            .accumulate = accumulate});
}

AttentionLayer::AttentionLayer(Ops& ops, const AttentionShape& shape, const Rows& tokens,
                               Variable& x, Variable& y)
    : tokens_(tokens), of_all_(ops.attention(shape)), x_(x), y_(y) {
  AttentionShape kept = shape;
  kept.tokens = tokens.in_training;
  in_training_ = ops.attention(kept);
}

void AttentionLayer::plan_forward(ActivationPlan& plan, bool /*training*/) {
  plan.use(x_.data);
  plan.make(y_.data);
}

void AttentionLayer::plan_backward(ActivationPlan& plan) {
  plan.use(y_.gradient);
  plan.use(x_.data);
  plan.make(x_.gradient);
}

void AttentionLayer::forward(const ForwardPass& pass) {
  (pass.training ? in_training_ : of_all_)
      ->forward(tokens_of(x_.data, tokens_, pass.training),
                tokens_of(y_.data, tokens_, pass.training));
}

void AttentionLayer::backward(bool /*accumulate*/) {
  in_training_->backward(tokens_of(x_.data, tokens_, true), tokens_of(y_.gradient, tokens_, true),
                         tokens_of(x_.gradient, tokens_, true));
}

AddLayer::AddLayer(Ops& ops, const DropoutOptions& path, const Rows& tokens, Variable& x,
                   Variable& branch, Variable& y)
    : ops_(ops), path_(path), tokens_(tokens), x_(x), branch_(branch), y_(y) {
  path_.group = tokens.in_training * x.data.shape[2];
}

void AddLayer::plan_forward(ActivationPlan& plan, bool /*training*/) {
  plan.use(x_.data);
  plan.make_in_place_of(y_.data, branch_.data);
}

void AddLayer::plan_backward(ActivationPlan& plan) {
  plan.use(y_.gradient);
  if (x_.needs_gradient) plan.make_in_place_of(x_.gradient, y_.gradient);
  if (!branch_.needs_gradient) return;
  // Without drop path, the gradients of x and of the branch are equal. Layers read the branch's
  // gradient before they add to x's gradient, so both can share memory.
  if (path_.probability == 0) {
    plan.make_in_place_of(branch_.gradient, y_.gradient);
  } else {
    plan.make(branch_.gradient);
  }
}

void AddLayer::forward(const ForwardPass& pass) {
  const Tensor branch = tokens_of(branch_.data, tokens_, pass.training);
  if (pass.training && path_.probability > 0) {
    path_.step = static_cast<std::uint32_t>(pass.step);
    ops_.dropout(branch, branch, path_);
  }
  ops_.add(tokens_of(x_.data, tokens_, pass.training), branch,
           tokens_of(y_.data, tokens_, pass.training));
}

void AddLayer::backward(bool /*accumulate*/) {
  if (!branch_.needs_gradient || path_.probability == 0) return;
  ops_.dropout(tokens_of(y_.gradient, tokens_, true), tokens_of(branch_.gradient, tokens_, true),
               path_);
}

void ConvertLayer::plan_forward(ActivationPlan& plan, bool /*training*/) {
  plan.use(x_.data);
  plan.make(y_.data);
}

void ConvertLayer::plan_backward(ActivationPlan& plan) {
  plan.use(y_.gradient);
  plan.make(x_.gradient);
}

void ConvertLayer::forward(const ForwardPass& /*pass*/) { ops_.convert(x_.data, y_.data); }

void ConvertLayer::backward(bool /*accumulate*/) { ops_.convert(y_.gradient, x_.gradient); }

}  // namespace pfc
