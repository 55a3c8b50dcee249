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

LinearLayer::LinearLayer(Ops& ops, const LinearVariables& variables)
    : ops_(ops),
      v_(variables),
      in_(v_.x->data.elements() / v_.rows.all),
      out_(v_.y->data.elements() / v_.rows.all),
      dy_operand_(nullptr, v_.x->data.dtype, v_.y->data.shape) {}

Tensor LinearLayer::rows_of(const Tensor& x, std::int64_t rows) const {
  return {x.data, x.dtype, {rows, x.elements() / v_.rows.all}};
}

Tensor LinearLayer::dy_as_operand() {
  const Tensor dy = rows_of(v_.y->gradient, v_.rows.in_training);
  if (dy_operand_.dtype == dy.dtype) return dy;
  const Tensor operand = rows_of(dy_operand_, v_.rows.in_training);
  ops_.convert(dy, operand);
  return operand;
}

template <typename F>
void LinearLayer::product(std::int64_t rows, const F& f) const {
  const Tensor x = rows_of(v_.x->data, rows), y = rows_of(v_.y->data, rows);
  f(Gemm{.m = rows,
         .n = out_,
         .k = in_,
         .transpose_b = true,
         .a = x,
         .b = v_.weight->operand,
         .c = y});
}

template <typename F>
void LinearLayer::weight_product(const Tensor& dy, bool accumulate, const F& f) const {
  const Tensor x = rows_of(v_.x->data, v_.rows.in_training);
  f(Gemm{.m = out_,
         .n = in_,
         .k = v_.rows.in_training,
         .transpose_a = true,
         .a = dy,
         .b = x,
         .beta = accumulate ? 1.f : 0.f,
         .c = v_.weight->gradient});
}

template <typename F>
void LinearLayer::data_product(const Tensor& dy, const F& f) const {
  const Tensor dx = rows_of(v_.x->gradient, v_.rows.in_training);
  f(Gemm{.m = v_.rows.in_training, .n = in_, .k = out_, .a = dy, .b = v_.weight->operand, .c = dx});
}

void LinearLayer::plan_forward(ActivationPlan& plan, bool training) {
  plan.use(v_.x->data);
  plan.make(v_.y->data);
  const auto plan_gemm = [this](const Gemm& g) { ops_.plan_gemm(g); };
  product(v_.rows.all, plan_gemm);
  if (training && v_.rows.in_training != v_.rows.all) product(v_.rows.in_training, plan_gemm);
}

void LinearLayer::plan_backward(ActivationPlan& plan) {
  plan.use(v_.y->gradient);
  if (v_.relu6) plan.use(v_.y->data);
  if (dy_operand_.dtype != v_.y->gradient.dtype) plan.make(dy_operand_);
  const auto plan_gemm = [this](const Gemm& g) { ops_.plan_gemm(g); };
  if (v_.weight->needs_gradient) {
    plan.use(v_.x->data);
    for (const bool accumulate : {false, true}) weight_product(dy_operand_, accumulate, plan_gemm);
  }
  if (!v_.x->needs_gradient) return;
  plan.make(v_.x->gradient);
  data_product(dy_operand_, plan_gemm);
}

void LinearLayer::forward(const ForwardPass& pass) {
  const std::int64_t rows = v_.rows.of(pass.training);
  product(rows, [this](const Gemm& g) { ops_.gemm(g); });
  if (v_.bias == nullptr) return;
  const Tensor y = rows_of(v_.y->data, rows);
  if (v_.relu6) {
    ops_.add_bias_relu6(y, v_.bias->data);
  } else {
    ops_.add_bias(y, v_.bias->data);
  }
}

void LinearLayer::backward(bool accumulate) {
  const Tensor gradient = rows_of(v_.y->gradient, v_.rows.in_training);
  if (v_.relu6) ops_.relu_backward(rows_of(v_.y->data, v_.rows.in_training), gradient, 6);
  const Tensor dy = dy_as_operand();
  const auto gemm = [this](const Gemm& g) { ops_.gemm(g); };
  if (v_.weight->needs_gradient) weight_product(dy, accumulate, gemm);
  if (v_.bias != nullptr && v_.bias->needs_gradient) {
    ops_.column_sums(gradient, v_.bias->gradient, accumulate);
  }
  if (v_.x->needs_gradient) data_product(dy, gemm);
}

DropoutLayer::DropoutLayer(Ops& ops, const DropoutOptions& options, Variable& x)
    : ops_(ops), options_(options), x_(x) {}

void DropoutLayer::plan_forward(ActivationPlan& plan, bool /*training*/) { plan.change(x_.data); }

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
