#include "model/networks/layers/layers.h"

namespace pfc {

ConvLayer::ConvLayer(Ops& ops, const Conv2dShape& shape, Variable& x, Variable& weight, Variable& y)
    : ops_(ops),
      shape_(shape),
      conv_(ops.conv2d(shape)),
      x_(x),
      weight_(weight),
      y_(y),
      dx_part_(nullptr, x.data.dtype, shape.x_shape()) {}

void ConvLayer::plan_forward(ActivationPlan& plan, bool /*training*/) {
  plan.use(x_.data);
  plan.make(y_.data);
}

void ConvLayer::plan_backward(ActivationPlan& plan) {
  conv_->plan_backward(x_.needs_gradient);
  if (weight_.needs_gradient) plan.use(x_.data);
  plan.use(y_.gradient);
  if (!x_.needs_gradient) return;
  if (plan.made(x_.gradient)) {
    plan.use(x_.gradient);
    plan.make(dx_part_);
  } else {
    plan.make(x_.gradient);
  }
}

void ConvLayer::forward(const ForwardPass& /*pass*/) {
  conv_->forward(x_.data, weight_.operand, y_.data);
}

void ConvLayer::backward(bool accumulate) {
  if (weight_.needs_gradient) {
    conv_->backward_weights(x_.data, y_.gradient, weight_.gradient, accumulate);
  }
  if (!x_.needs_gradient) return;
  if (dx_part_) {
    conv_->backward_data(y_.gradient, weight_.operand, dx_part_);
    ops_.add(x_.gradient, dx_part_, x_.gradient);
  } else {
    conv_->backward_data(y_.gradient, weight_.operand, x_.gradient);
  }
}

LinearLayer::LinearLayer(Ops& ops, Variable& x, Variable& weight, Variable* bias, Variable& y)
    : ops_(ops),
      x_(x),
      weight_(weight),
      bias_(bias),
      y_(y),
      dy_operand_(nullptr, x.data.dtype, y.data.shape),
      rows_(x.data.shape[0]),
      in_(x.data.elements() / rows_),
      out_(y.data.shape[1]) {}

Tensor LinearLayer::flattened(const Tensor& x) const { return {x.data, x.dtype, {rows_, in_}}; }

Tensor LinearLayer::dy_as_operand() {
  if (dy_operand_.dtype == y_.gradient.dtype) return y_.gradient;
  ops_.convert(y_.gradient, dy_operand_);
  return dy_operand_;
}

template <typename F>
void LinearLayer::product(const F& f) const {
  const Tensor x = flattened(x_.data);
  f(Gemm{.m = rows_,
         .n = out_,
         .k = in_,
         .transpose_b = true,
         .a = x,
         .b = weight_.operand,
         .c = y_.data});
}

template <typename F>
void LinearLayer::weight_product(const Tensor& dy, bool accumulate, const F& f) const {
  const Tensor x = flattened(x_.data);
  f(Gemm{.m = out_,
         .n = in_,
         .k = rows_,
         .transpose_a = true,
         .a = dy,
         .b = x,
         .beta = accumulate ? 1.f : 0.f,
         .c = weight_.gradient});
}

template <typename F>
void LinearLayer::data_product(const Tensor& dy, const F& f) const {
  const Tensor dx = flattened(x_.gradient);
  f(Gemm{.m = rows_, .n = in_, .k = out_, .a = dy, .b = weight_.operand, .c = dx});
}

void LinearLayer::plan_forward(ActivationPlan& plan, bool /*training*/) {
  plan.use(x_.data);
  plan.make(y_.data);
  product([this](const Gemm& g) { ops_.plan_gemm(g); });
}

void LinearLayer::plan_backward(ActivationPlan& plan) {
  plan.use(y_.gradient);
  if (dy_operand_.dtype != y_.gradient.dtype) plan.make(dy_operand_);
  const auto plan_gemm = [this](const Gemm& g) { ops_.plan_gemm(g); };
  if (weight_.needs_gradient) {
    plan.use(x_.data);
    for (const bool accumulate : {false, true}) weight_product(dy_operand_, accumulate, plan_gemm);
  }
  if (!x_.needs_gradient) return;
  plan.make(x_.gradient);
  data_product(dy_operand_, plan_gemm);
}

void LinearLayer::forward(const ForwardPass& /*pass*/) {
  product([this](const Gemm& g) { ops_.gemm(g); });
  if (bias_ != nullptr) ops_.add_bias(y_.data, bias_->data);
}

void LinearLayer::backward(bool accumulate) {
  const Tensor dy = dy_as_operand();
  const auto gemm = [this](const Gemm& g) { ops_.gemm(g); };
  if (weight_.needs_gradient) weight_product(dy, accumulate, gemm);
  if (bias_ != nullptr && bias_->needs_gradient) {
    ops_.column_sums(y_.gradient, bias_->gradient, accumulate);
  }
  if (x_.needs_gradient) data_product(dy, gemm);
}

DropoutLayer::DropoutLayer(Ops& ops, const DropoutOptions& options, Variable& x)
    : ops_(ops), options_(options), x_(x) {}

void DropoutLayer::plan_forward(ActivationPlan& plan, bool /*training*/) { plan.use(x_.data); }

void DropoutLayer::plan_backward(ActivationPlan& plan) { plan.use(x_.gradient); }

void DropoutLayer::forward(const ForwardPass& pass) {
  if (!pass.training) return;
  options_.step = static_cast<std::uint32_t>(pass.step);
  ops_.dropout(x_.data, x_.data, options_);
}

void DropoutLayer::backward(bool /*accumulate*/) {
  ops_.dropout(x_.gradient, x_.gradient, options_);
}

}  // namespace pfc
