// Argument checks of all ops, common to all devices. They run before the device's own code.

#include "kernels/ops.h"

#include "kernels/tensor_check.h"

namespace pfc {
namespace {

constexpr DType kFloat = DType::kFloat32;

/// Expects float32 or the activation type; any shape.
void expect_number(const Argument& a, DType activations) {
  expect(a, {kFloat, activations}, a.tensor.shape);
}

void expect_float(const Argument& a) { expect(a, kFloat, a.tensor.shape); }

/// Expects the type and size of `other`, which was checked before.
void expect_like(const Argument& a, const Tensor& other) { expect(a, other.dtype, other.shape); }

/// Checks the window of a max pooling.
void check_window(const Conv2dShape& shape) {
  shape.check_valid();
  check(shape.groups == shape.in_c && shape.out_c == shape.in_c,
        "max_pool: the shape must be that of a depthwise convolution");
  check(shape.kernel <= 16 && shape.pad < shape.kernel,
        "max_pool: a window has at most 16 x 16 pixels, and at least one of the image");
}

}  // namespace

Conv2d::Conv2d(const Conv2dShape& shape, DType activations)
    : shape_(shape), activations_(activations) {
  shape.check_valid();
}

void Conv2d::forward(const Tensor& x, const Tensor& w, const Tensor& y) {
  expect({"conv2d.forward", "x", x}, activations_, shape_.x_shape());
  expect({"conv2d.forward", "w", w}, activations_, shape_.w_shape());
  expect({"conv2d.forward", "y", y}, activations_, shape_.y_shape());
  run_forward(x, w, y);
}

void Conv2d::backward_data(const Tensor& dy, const Tensor& w, const Tensor& dx) {
  expect({"conv2d.backward_data", "dy", dy}, activations_, shape_.y_shape());
  expect({"conv2d.backward_data", "w", w}, activations_, shape_.w_shape());
  expect({"conv2d.backward_data", "dx", dx}, activations_, shape_.x_shape());
  run_backward_data(dy, w, dx);
}

void Conv2d::backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                              bool accumulate) {
  expect({"conv2d.backward_weights", "x", x}, activations_, shape_.x_shape());
  expect({"conv2d.backward_weights", "dy", dy}, activations_, shape_.y_shape());
  expect({"conv2d.backward_weights", "dw", dw}, kFloat, shape_.w_shape());
  run_backward_weights(x, dy, dw, accumulate);
}

BatchNorm::BatchNorm(const BatchNormShape& shape, DType activations)
    : shape_(shape), activations_(activations) {
  check(shape.rows > 0 && shape.channels > 0, "batch_norm: sizes must be positive");
}

void BatchNorm::statistics(const Tensor& x, const Tensor& mean, const Tensor& variance) {
  constexpr const char* kOp = "batch_norm.statistics";
  expect({kOp, "x", x}, {kFloat, activations_}, {shape_.rows, shape_.channels});
  expect({kOp, "mean", mean}, kFloat, {shape_.channels});
  expect({kOp, "variance", variance}, kFloat, {shape_.channels});
  run_statistics(x, mean, variance);
}

void BatchNorm::forward(const Forward& f) {
  constexpr const char* kOp = "batch_norm.forward";
  const Shape channels{shape_.channels};
  expect({kOp, "x", f.x}, {kFloat, activations_}, {shape_.rows, shape_.channels});
  expect({kOp, "mean", f.mean}, kFloat, channels);
  expect({kOp, "variance", f.variance}, kFloat, channels);
  expect({kOp, "gamma", f.gamma}, kFloat, channels);
  expect({kOp, "beta", f.beta}, kFloat, channels);
  if (f.slope) expect({kOp, "slope", f.slope}, kFloat, channels);
  if (f.residual) expect_like({kOp, "residual", f.residual}, f.x);
  expect_like({kOp, "y", f.y}, f.x);
  if (f.y_mean) {
    expect({kOp, "y_mean", f.y_mean}, kFloat, channels);
    expect({kOp, "y_variance", f.y_variance}, kFloat, channels);
  }
  run_forward(f);
}

void BatchNorm::check_backward(const char* op, const Backward& b) const {
  const Shape channels{shape_.channels};
  expect({op, "x", b.x}, {kFloat, activations_}, {shape_.rows, shape_.channels});
  expect_like({op, "dy", b.dy}, b.x);
  expect({op, "mean", b.mean}, kFloat, channels);
  expect({op, "variance", b.variance}, kFloat, channels);
  expect({op, "gamma", b.gamma}, kFloat, channels);
  expect({op, "beta", b.beta}, kFloat, channels);
  if (b.slope) expect({op, "slope", b.slope}, kFloat, channels);
  expect({op, "sum_dz", b.sum_dz}, kFloat, channels);
  expect({op, "sum_dz_xhat", b.sum_dz_xhat}, kFloat, channels);
}

void BatchNorm::backward_reduce(const Backward& b) {
  constexpr const char* kOp = "batch_norm.backward_reduce";
  check_backward(kOp, b);
  if (b.slope) expect({kOp, "dslope", b.dslope}, kFloat, {shape_.channels});
  run_backward_reduce(b);
}

void BatchNorm::backward_apply(const Backward& b) {
  constexpr const char* kOp = "batch_norm.backward_apply";
  check_backward(kOp, b);
  check(b.total_rows >= shape_.rows,
        "batch_norm.backward_apply: total_rows is less than this worker's rows");
  if (b.add) expect_like({kOp, "add", b.add}, b.x);
  expect_like({kOp, "dx", b.dx}, b.x);
  run_backward_apply(b);
}

Attention::Attention(const AttentionShape& shape, DType activations)
    : shape_(shape), activations_(activations) {
  check(shape.batch > 0 && shape.tokens > 0 && shape.heads > 0 && shape.head_size > 0,
        "attention: sizes must be positive");
  check(shape.head_size % 16 == 0, "attention: head_size must be a multiple of 16");
}

void Attention::forward(const Tensor& qkv, const Tensor& y) {
  expect({"attention.forward", "qkv", qkv}, activations_, shape_.qkv_shape());
  expect({"attention.forward", "y", y}, activations_, shape_.y_shape());
  run_forward(qkv, y);
}

void Attention::backward(const Tensor& qkv, const Tensor& dy, const Tensor& dqkv) {
  expect({"attention.backward", "qkv", qkv}, activations_, shape_.qkv_shape());
  expect({"attention.backward", "dy", dy}, activations_, shape_.y_shape());
  expect({"attention.backward", "dqkv", dqkv}, activations_, shape_.qkv_shape());
  run_backward(qkv, dy, dqkv);
}

void Ops::copy(const Tensor& from, const Tensor& to) {
  expect({"copy", "from", from}, from.dtype, from.shape);
  expect_like({"copy", "to", to}, from);
  if (from.elements() > 0) run_copy(from, to);
}

void Ops::fill(const Tensor& t, float value) {
  expect_float({"fill", "t", t});
  if (t.elements() > 0) run_fill(t, value);
}

void Ops::convert(const Tensor& from, const Tensor& to) {
  expect_number({"convert", "from", from}, activation_type());
  expect({"convert", "to", to}, {kFloat, activation_type()}, from.shape);
  if (from.elements() > 0) run_convert(from, to);
}

void Ops::normalise_images(const Tensor& images, const Tensor& y) {
  expect({"normalise_images", "images", images}, DType::kUInt8, images.shape);
  expect({"normalise_images", "y", y}, {kFloat, activation_type()}, images.shape);
  if (y.elements() > 0) run_normalise_images(images, y);
}

void Ops::update_running_statistics(const RunningStatistics& r) {
  constexpr const char* kOp = "update_running_statistics";
  expect_float({kOp, "mean", r.mean});
  expect_like({kOp, "variance", r.variance}, r.mean);
  expect_like({kOp, "running_mean", r.running_mean}, r.mean);
  expect_like({kOp, "running_variance", r.running_variance}, r.mean);
  check(r.total_rows > 0, "update_running_statistics: total_rows must be positive");
  if (r.mean.elements() > 0) run_update_running_statistics(r);
}

void Ops::gemm(const Gemm& g) {
  check(g.m >= 0 && g.n >= 0 && g.k > 0, "gemm: m and n must be at least 0, k at least 1");
  const Shape a = g.transpose_a ? Shape{g.k, g.m} : Shape{g.m, g.k};
  const Shape b = g.transpose_b ? Shape{g.n, g.k} : Shape{g.k, g.n};
  if (on_host()) {
    expect({"gemm", "a", g.a}, {kFloat, activation_type()}, a);
  } else {
    expect({"gemm", "a", g.a}, {kFloat, DType::kBFloat16, DType::kFloat16}, a);
  }
  expect({"gemm", "b", g.b}, g.a.dtype, b);
  expect({"gemm", "c", g.c}, {g.a.dtype, kFloat}, {g.m, g.n});
  if (g.c.elements() > 0) run_gemm(g);
}

void Ops::add(const Tensor& a, const Tensor& b, const Tensor& y) {
  expect_number({"add", "a", a}, activation_type());
  expect_like({"add", "b", b}, a);
  expect_like({"add", "y", y}, a);
  if (y.elements() > 0) run_add(a, b, y);
}

void Ops::scale(const Tensor& x, float factor, const Tensor& y) {
  expect_float({"scale", "x", x});
  expect_like({"scale", "y", y}, x);
  if (y.elements() > 0) run_scale(x, factor, y);
}

void Ops::average(const Tensor& value, float part, const Tensor& average) {
  expect_float({"average", "value", value});
  expect_like({"average", "average", average}, value);
  if (average.elements() > 0) run_average(value, part, average);
}

void Ops::add_bias(const Tensor& y, const Tensor& bias) {
  expect_float({"add_bias", "bias", bias});
  expect_columns({"add_bias", "y", y}, activation_type(), bias.elements());
  if (y.elements() > 0) run_add_bias(y, bias, false);
}

void Ops::add_bias_relu6(const Tensor& y, const Tensor& bias) {
  expect_float({"add_bias_relu6", "bias", bias});
  expect_columns({"add_bias_relu6", "y", y}, activation_type(), bias.elements());
  if (y.elements() > 0) run_add_bias(y, bias, true);
}

void Ops::relu(const Tensor& y) {
  expect_number({"relu", "y", y}, activation_type());
  if (y.elements() > 0) run_relu(y);
}

void Ops::relu_backward(const Tensor& y, const Tensor& dy, float bound) {
  expect_number({"relu_backward", "y", y}, activation_type());
  expect_like({"relu_backward", "dy", dy}, y);
  if (y.elements() > 0) run_relu_backward(y, dy, bound);
}

void Ops::column_sums(const Tensor& x, const Tensor& sums, bool accumulate, const Tensor& places) {
  expect_float({"column_sums", "sums", sums});
  expect_columns({"column_sums", "x", x}, activation_type(), sums.elements());
  if (places) {
    expect({"column_sums", "places", places}, DType::kInt64, {x.elements() / sums.elements()});
  }
  run_column_sums(x, sums, accumulate, places);
}

void Ops::dropout(const Tensor& x, const Tensor& y, const DropoutOptions& o) {
  expect_number({"dropout", "x", x}, activation_type());
  expect_like({"dropout", "y", y}, x);
  check(o.probability >= 0.f && o.probability < 1.f, "dropout: found a probability outside [0, 1)");
  check(o.group > 0, "dropout: group must be positive");
  if (y.elements() > 0) run_dropout(x, y, o);
}

void Ops::max_pool(const Conv2dShape& shape, const Tensor& x, const Tensor& y,
                   const Tensor& winners) {
  check_window(shape);
  expect({"max_pool", "x", x}, {kFloat, activation_type()}, shape.x_shape());
  expect({"max_pool", "y", y}, x.dtype, shape.y_shape());
  if (winners) expect({"max_pool", "winners", winners}, DType::kUInt8, shape.y_shape());
  run_max_pool(shape, x, y, winners);
}

void Ops::max_pool_backward(const Conv2dShape& shape, const Tensor& dy, const Tensor& winners,
                            const Tensor& dx) {
  constexpr const char* kOp = "max_pool_backward";
  check_window(shape);
  expect({kOp, "dy", dy}, {kFloat, activation_type()}, shape.y_shape());
  expect({kOp, "winners", winners}, DType::kUInt8, shape.y_shape());
  expect({kOp, "dx", dx}, dy.dtype, shape.x_shape());
  run_max_pool_backward(shape, dy, winners, dx);
}

void Ops::average_pool(const Tensor& x, const Tensor& y) {
  check(x.shape.rank() == 4, "average_pool: x must be [batch, H, W, n]");
  expect_number({"average_pool", "x", x}, activation_type());
  expect({"average_pool", "y", y}, {kFloat, activation_type()}, {x.shape[0], x.shape[3]});
  if (x.elements() > 0) run_average_pool(x, y);
}

void Ops::average_pool_backward(const Tensor& dy, const Tensor& dx, bool accumulate) {
  constexpr const char* kOp = "average_pool_backward";
  check(dx.shape.rank() == 4, "average_pool_backward: dx must be [batch, H, W, n]");
  expect_number({kOp, "dx", dx}, activation_type());
  expect({kOp, "dy", dy}, {kFloat, activation_type()}, {dx.shape[0], dx.shape[3]});
  if (dx.elements() > 0) run_average_pool_backward(dy, dx, accumulate);
}

void Ops::gate(const Tensor& x, const Tensor& logits, const Tensor& residual, const Tensor& y) {
  check(x.shape.rank() == 4, "gate: x must be [batch, H, W, n]");
  expect_number({"gate", "x", x}, activation_type());
  expect({"gate", "logits", logits}, x.dtype, {x.shape[0], x.shape[3]});
  expect_like({"gate", "residual", residual}, x);
  expect_like({"gate", "y", y}, x);
  if (x.elements() > 0) run_gate(x, logits, residual, y);
}

void Ops::gate_backward(const Tensor& dy, const Tensor& x, const Tensor& logits, const Tensor& dx,
                        const Tensor& dlogits) {
  constexpr const char* kOp = "gate_backward";
  check(x.shape.rank() == 4, "gate_backward: x must be [batch, H, W, n]");
  expect_number({kOp, "x", x}, activation_type());
  expect_like({kOp, "dy", dy}, x);
  expect({kOp, "logits", logits}, x.dtype, {x.shape[0], x.shape[3]});
  if (dx) expect_like({kOp, "dx", dx}, x);
  expect_like({kOp, "dlogits", dlogits}, logits);
  if (x.elements() > 0) run_gate_backward(dy, x, logits, dx, dlogits);
}

void Ops::layer_norm(const LayerNorm& l) {
  constexpr const char* kOp = "layer_norm";
  expect_float({kOp, "gamma", l.gamma});
  expect_like({kOp, "beta", l.beta}, l.gamma);
  expect_columns({kOp, "x", l.x}, kFloat, l.gamma.elements());
  expect({kOp, "y", l.y}, {kFloat, activation_type()}, l.x.shape);
  const std::int64_t rows = l.x.elements() / l.gamma.elements();
  expect({kOp, "statistics", l.statistics}, kFloat, {rows, 2});
  if (rows > 0) run_layer_norm(l);
}

void Ops::layer_norm_backward(const LayerNormBackward& b) {
  constexpr const char* kOp = "layer_norm_backward";
  expect_float({kOp, "gamma", b.gamma});
  expect_columns({kOp, "x", b.x}, kFloat, b.gamma.elements());
  expect({kOp, "dy", b.dy}, {kFloat, activation_type()}, b.x.shape);
  const std::int64_t rows = b.x.elements() / b.gamma.elements();
  expect({kOp, "statistics", b.statistics}, kFloat, {rows, 2});
  for (const auto& [name, tensor] : {std::pair{"add", &b.add}, {"dx", &b.dx}}) {
    if (*tensor) expect_like({kOp, name, *tensor}, b.x);
  }
  for (const auto& [name, tensor] : {std::pair{"dgamma", &b.dgamma}, {"dbeta", &b.dbeta}}) {
    if (*tensor) expect_like({kOp, name, *tensor}, b.gamma);
  }
  if (rows > 0) run_layer_norm_backward(b);
}

void Ops::choose_tokens(const Tensor& places, const TokenMask& mask) {
  check(places.shape.rank() == 2, "choose_tokens: places must be [batch, tokens]");
  expect({"choose_tokens", "places", places}, DType::kInt64, places.shape);
  check(mask.kept > 0 && mask.kept <= places.shape[1], "choose_tokens: kept is not in [1, tokens]");
  if (places.elements() > 0) run_choose_tokens(places, mask);
}

void Ops::keep_tokens(const Tensor& x, const Tensor& places, const Tensor& y) {
  constexpr const char* kOp = "keep_tokens";
  check(x.shape.rank() == 3 && y.shape.rank() == 3,
        "keep_tokens: x and y must be [batch, tokens, n]");
  expect_number({kOp, "x", x}, activation_type());
  expect({kOp, "places", places}, DType::kInt64, {x.shape[0], x.shape[1]});
  expect({kOp, "y", y}, x.dtype, {x.shape[0], y.shape[1], x.shape[2]});
  if (y.elements() > 0) run_keep_tokens(x, places, y);
}

void Ops::restore_tokens(const Tensor& x, const Tensor& places, const Tensor& token,
                         const Tensor& y) {
  constexpr const char* kOp = "restore_tokens";
  check(x.shape.rank() == 3 && y.shape.rank() == 3,
        "restore_tokens: x and y must be [batch, tokens, n]");
  expect_number({kOp, "y", y}, activation_type());
  expect({kOp, "places", places}, DType::kInt64, {y.shape[0], y.shape[1]});
  expect({kOp, "x", x}, y.dtype, {y.shape[0], x.shape[1], y.shape[2]});
  if (token) expect({kOp, "token", token}, y.dtype, {y.shape[2]});
  if (y.elements() > 0) run_restore_tokens(x, places, token, y);
}

void Ops::normalise_rows(const Tensor& x, const Tensor& y, const Tensor& inverse_norm) {
  expect_float({"normalise_rows", "inverse_norm", inverse_norm});
  expect_rows({"normalise_rows", "x", x}, inverse_norm.elements());
  expect_like({"normalise_rows", "y", y}, x);
  if (x.elements() > 0) run_normalise_rows(x, y, inverse_norm);
}

void Ops::normalise_rows_backward(const Tensor& dy, const Tensor& y, const Tensor& inverse_norm,
                                  const Tensor& dx) {
  constexpr const char* kOp = "normalise_rows_backward";
  expect_float({kOp, "inverse_norm", inverse_norm});
  expect_rows({kOp, "dy", dy}, inverse_norm.elements());
  expect_like({kOp, "y", y}, dy);
  expect_like({kOp, "dx", dx}, dy);
  if (dy.elements() > 0) run_normalise_rows_backward(dy, y, inverse_norm, dx);
}

double Ops::sum_of_squares(const Tensor& x) {
  expect_float({"sum_of_squares", "x", x});
  return x.elements() > 0 ? run_sum_of_squares(x) : 0.0;
}

void Ops::sgd(const SgdOptions& o, float gradient_scale, const Tensor& gradient,
              const Tensor& weight, const Tensor& velocity, const Tensor& operand) {
  expect_float({"sgd", "weight", weight});
  expect_like({"sgd", "gradient", gradient}, weight);
  expect_like({"sgd", "velocity", velocity}, weight);
  if (operand) expect({"sgd", "operand", operand}, activation_type(), weight.shape);
  if (weight.elements() == 0) return;
  run_sgd(o, gradient_scale, gradient, weight, velocity, operand);
}

void Ops::adamw(const AdamWOptions& o, float gradient_scale, const Tensor& gradient,
                const Tensor& weight, const Tensor& m, const Tensor& v, const Tensor& operand) {
  expect_float({"adamw", "weight", weight});
  expect_like({"adamw", "gradient", gradient}, weight);
  expect_like({"adamw", "m", m}, weight);
  expect_like({"adamw", "v", v}, weight);
  if (operand) expect({"adamw", "operand", operand}, activation_type(), weight.shape);
  if (weight.elements() == 0) return;
  run_adamw(o, gradient_scale, gradient, weight, m, v, operand);
}

}  // namespace pfc
