#include "model/networks/layers/pooling_layers.h"

namespace pfc {

void ReluLayer::plan_forward(ActivationPlan& plan, bool /*training*/) { plan.change(x_.data); }

void ReluLayer::plan_backward(ActivationPlan& plan) {
  plan.use(x_.data);
  plan.use(x_.gradient);
}

void ReluLayer::forward(const ForwardPass& /*pass*/) { ops_.relu(x_.data); }

void ReluLayer::backward(bool /*accumulate*/) { ops_.relu_backward(x_.data, x_.gradient); }

MaxPoolLayer::MaxPoolLayer(Ops& ops, const Conv2dShape& shape, Variable& x, Variable& y)
    : ops_(ops), shape_(shape), x_(x), y_(y), winners_(nullptr, DType::kUInt8, shape.y_shape()) {}

void MaxPoolLayer::plan_forward(ActivationPlan& plan, bool training) {
  plan.use(x_.data);
  plan.make(y_.data);
  if (training && x_.needs_gradient) plan.make(winners_);
}

void MaxPoolLayer::plan_backward(ActivationPlan& plan) {
  plan.use(y_.gradient);
  plan.use(winners_);
  plan.make(x_.gradient);
}

void MaxPoolLayer::forward(const ForwardPass& pass) {
  ops_.max_pool(shape_, x_.data, y_.data, pass.training ? winners_ : Tensor{});
}

void MaxPoolLayer::backward(bool /*accumulate*/) {
  ops_.max_pool_backward(shape_, y_.gradient, winners_, x_.gradient);
}

void AveragePoolLayer::plan_forward(ActivationPlan& plan, bool /*training*/) {
  plan.use(x_.data);
  plan.make(y_.data);
}

void AveragePoolLayer::plan_backward(ActivationPlan& plan) {
  plan.use(y_.gradient);
  adds_to_dx_ = plan.made(x_.gradient);
  if (adds_to_dx_) {
    plan.use(x_.gradient);
  } else {
    plan.make(x_.gradient);
  }
}

void AveragePoolLayer::forward(const ForwardPass& /*pass*/) { ops_.average_pool(x_.data, y_.data); }

void AveragePoolLayer::backward(bool /*accumulate*/) {
  ops_.average_pool_backward(y_.gradient, x_.gradient, adds_to_dx_);
}

void GateLayer::plan_forward(ActivationPlan& plan, bool /*training*/) {
  for (const Variable* each : {&x_, &logits_, &residual_}) plan.use(each->data);
  plan.make(y_.data);
}

void GateLayer::plan_backward(ActivationPlan& plan) {
  plan.use(y_.gradient);
  if (logits_.needs_gradient) {
    plan.use(x_.data);
    plan.use(logits_.data);
    plan.make(logits_.gradient);
  }
  if (residual_.needs_gradient) plan.make_in_place_of(residual_.gradient, y_.gradient);
  if (x_.needs_gradient) plan.make(x_.gradient);
}

void GateLayer::forward(const ForwardPass& /*pass*/) {
  ops_.gate(x_.data, logits_.data, residual_.data, y_.data);
}

void GateLayer::backward(bool /*accumulate*/) {
  if (!logits_.needs_gradient) return;  // then x needs no gradient either
  ops_.gate_backward(y_.gradient, x_.data, logits_.data, x_.needs_gradient ? x_.gradient : Tensor{},
                     logits_.gradient);
}

}  // namespace pfc
