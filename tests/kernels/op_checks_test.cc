// Tests the errors of every op for wrong shapes and types, which are equal on every device.

#include <functional>

#include "tests/kernels/on_each_device.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

class OpChecks : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (ops_) type_ = name_of(ops_->activation_type());
  }

  /// Returns the error of a call with wrong arguments.
  static std::string refusal(const std::function<void()>& call) {
    return testing::message_of<std::logic_error>(call);
  }
  static bool ends_with(const std::string& text, const std::string& end) {
    return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
  }
  /// Returns "fp32", or "fp32 or bf16" on a device with such activations.
  [[nodiscard]] std::string number() const { return type_ == "fp32" ? type_ : "fp32 or " + type_; }

  std::string type_;  // of the activations
};

TEST_P(OpChecks, CoverCopyFillAndConvert) {
  const OwnedTensor three = tensor({3}), four = tensor({4}), bytes(*ops_, {3}, DType::kUInt8);
  EXPECT_EQ(refusal([&] { ops_->copy(three, four); }), "copy: to is fp32 [4], expected fp32 [3]");
  EXPECT_EQ(refusal([&] { ops_->copy(three, bytes); }), "copy: to is uint8 [3], expected fp32 [3]");
  EXPECT_EQ(refusal([&] { ops_->fill(bytes, 1.f); }), "fill: t is uint8 [3], expected fp32 [3]");
  EXPECT_EQ(refusal([&] { ops_->convert(bytes, three); }),
            "convert: from is uint8 [3], expected " + number() + " [3]");
  EXPECT_EQ(refusal([&] { ops_->convert(three, four); }),
            "convert: to is fp32 [4], expected " + number() + " [3]");
}

TEST_P(OpChecks, CoverMissingTensors) {
  const OwnedTensor three = tensor({3});
  EXPECT_EQ(refusal([&] { ops_->add(three, Tensor{}, three); }),
            "add: b is null, expected fp32 [3]");
  EXPECT_EQ(refusal([&] { ops_->fill(Tensor{}, 1.f); }), "fill: t is null, expected fp32 []");
}

TEST_P(OpChecks, CoverElementwiseOps) {
  const OwnedTensor three = tensor({3}), four = tensor({2, 2}), bytes(*ops_, {3}, DType::kUInt8);
  EXPECT_EQ(refusal([&] { ops_->normalise_images(three, three); }),
            "normalise_images: images is fp32 [3], expected uint8 [3]");
  EXPECT_EQ(refusal([&] { ops_->normalise_images(bytes, four); }),
            "normalise_images: y is fp32 [2, 2], expected " + number() + " [3]");
  EXPECT_EQ(refusal([&] { ops_->add(three, three, four); }),
            "add: y is fp32 [2, 2], expected fp32 [3]");
  EXPECT_EQ(refusal([&] { ops_->scale(three, 2.f, four); }),
            "scale: y is fp32 [2, 2], expected fp32 [3]");
  EXPECT_EQ(refusal([&] { ops_->average(three, 0.5f, four); }),
            "average: average is fp32 [2, 2], expected fp32 [3]");
  EXPECT_EQ(refusal([&] { ops_->dropout(three, four, {}); }),
            "dropout: y is fp32 [2, 2], expected fp32 [3]");
  EXPECT_TRUE(ends_with(refusal([&] { ops_->dropout(three, three, {.probability = 1.f}); }),
                        ": dropout: found a probability outside [0, 1)"));
}

TEST_P(OpChecks, CoverSumsAndBiases) {
  const OwnedTensor three = tensor({3}), four = tensor({2, 2}), none = tensor({0});
  EXPECT_EQ(refusal([&] { ops_->add_bias(four, three); }),
            "add_bias: y is fp32 [2, 2], expected " + number() + " [any number, 3]");
  EXPECT_EQ(refusal([&] { ops_->column_sums(four, three, false); }),
            "column_sums: x is fp32 [2, 2], expected " + number() + " [any number, 3]");
  EXPECT_EQ(refusal([&] { ops_->column_sums(four, none, false); }),
            "column_sums: x is fp32 [2, 2], expected " + number() + " [any number, 0]");
  const OwnedTensor bytes(*ops_, {3}, DType::kUInt8);
  EXPECT_EQ(refusal([&] { ops_->sum_of_squares(bytes); }),
            "sum_of_squares: x is uint8 [3], expected fp32 [3]");
}

TEST_P(OpChecks, CoverTransformers) {
  const OwnedTensor three = tensor({3}), four = tensor({2, 2}), six = tensor({2, 3}),
                    cube = tensor({1, 2, 2}), places(*ops_, {1, 2}, DType::kInt64);
  EXPECT_EQ(refusal([&] { ops_->add_bias_relu6(four, three); }),
            "add_bias_relu6: y is fp32 [2, 2], expected " + number() + " [any number, 3]");
  EXPECT_EQ(refusal([&] { ops_->relu_backward(three, four); }),
            "relu_backward: dy is fp32 [2, 2], expected fp32 [3]");
  EXPECT_EQ(refusal([&] { ops_->column_sums(six, three, false, three); }),
            "column_sums: places is fp32 [3], expected int64 [2]");
  EXPECT_EQ(
      refusal([&] {
        ops_->layer_norm({.x = six, .gamma = three, .beta = three, .y = six, .statistics = three});
      }),
      "layer_norm: statistics is fp32 [3], expected fp32 [2, 2]");
  EXPECT_EQ(refusal([&] {
              ops_->layer_norm_backward(
                  {.dy = six, .x = six, .statistics = four, .gamma = three, .dgamma = four});
            }),
            "layer_norm_backward: dgamma is fp32 [2, 2], expected fp32 [3]");
  EXPECT_TRUE(ends_with(refusal([&] { ops_->choose_tokens(places, {.kept = 3}); }),
                        ": choose_tokens: kept is not in [1, tokens]"));
  EXPECT_EQ(refusal([&] {
              ops_->keep_tokens(cube, places, tensor({1, 1, 3}));
            }),
            "keep_tokens: y is fp32 [1, 1, 3], expected fp32 [1, 1, 2]");
  EXPECT_EQ(refusal([&] { ops_->restore_tokens(cube, places, three, cube); }),
            "restore_tokens: token is fp32 [3], expected fp32 [2]");
  EXPECT_TRUE(ends_with(refusal([&] { (void)ops_->attention({.head_size = 8}); }),
                        ": attention: head_size must be a multiple of 16"));
}

TEST_P(OpChecks, CoverRunningStatistics) {
  const OwnedTensor three = tensor({3}), four = tensor({4});
  Ops::RunningStatistics r{.mean = three,
                           .variance = three,
                           .total_rows = 2,
                           .running_mean = three,
                           .running_variance = four};
  EXPECT_EQ(refusal([&] { ops_->update_running_statistics(r); }),
            "update_running_statistics: running_variance is fp32 [4], expected fp32 [3]");
  r.running_variance = three;
  r.total_rows = 0;
  EXPECT_TRUE(ends_with(refusal([&] { ops_->update_running_statistics(r); }),
                        ": update_running_statistics: total_rows must be positive"));
}

TEST_P(OpChecks, CoverMatrixProducts) {
  const OwnedTensor a = tensor({2, 3}), b = tensor({3, 4}), c = tensor({2, 4});
  const auto words = [&](const Tensor& left, const Tensor& right, const Tensor& to) {
    return refusal([&] { ops_->gemm({.m = 2, .n = 4, .k = 3, .a = left, .b = right, .c = to}); });
  };
  const std::string types = ops_->on_host() ? number() : "fp32 or bf16 or fp16";
  EXPECT_EQ(words(b, b, c), "gemm: a is fp32 [3, 4], expected " + types + " [2, 3]");
  EXPECT_EQ(words(a, a, c), "gemm: b is fp32 [2, 3], expected fp32 [3, 4]");
  EXPECT_EQ(words(a, b, a), "gemm: c is fp32 [2, 3], expected fp32 [2, 4]");
  EXPECT_TRUE(ends_with(refusal([&] { ops_->gemm({.m = 2, .n = 4, .a = a, .b = b, .c = c}); }),
                        ": gemm: m and n must be at least 0, k at least 1"));
}

TEST_P(OpChecks, CoverNormalisedRows) {
  const OwnedTensor rows = tensor({2, 3}), more = tensor({7}), two = tensor({2});
  EXPECT_EQ(refusal([&] { ops_->normalise_rows(more, more, two); }),
            "normalise_rows: x is fp32 [7], expected fp32 [2, any number]");
  EXPECT_EQ(refusal([&] { ops_->normalise_rows(rows, more, two); }),
            "normalise_rows: y is fp32 [7], expected fp32 [2, 3]");
  EXPECT_EQ(refusal([&] { ops_->normalise_rows_backward(more, more, two, more); }),
            "normalise_rows_backward: dy is fp32 [7], expected fp32 [2, any number]");
  EXPECT_EQ(refusal([&] { ops_->normalise_rows_backward(rows, rows, two, more); }),
            "normalise_rows_backward: dx is fp32 [7], expected fp32 [2, 3]");
}

TEST_P(OpChecks, CoverOptimizers) {
  const OwnedTensor three = tensor({3}), four = tensor({4});
  EXPECT_EQ(refusal([&] { ops_->sgd({}, 1.f, four, three, three); }),
            "sgd: gradient is fp32 [4], expected fp32 [3]");
  EXPECT_EQ(refusal([&] { ops_->sgd({}, 1.f, three, three, four); }),
            "sgd: velocity is fp32 [4], expected fp32 [3]");
  EXPECT_EQ(refusal([&] { ops_->adamw({}, 1.f, three, three, four, three); }),
            "adamw: m is fp32 [4], expected fp32 [3]");
  EXPECT_EQ(refusal([&] { ops_->adamw({}, 1.f, three, three, three, Tensor{}); }),
            "adamw: v is null, expected fp32 [3]");
}

// Covers a dense convolution and a depthwise one, because a GPU has separate code for the latter.
TEST_P(OpChecks, CoverConvolutions) {
  for (const std::int64_t groups : {1, 8}) {
    const std::unique_ptr<Conv2d> conv = ops_->conv2d({.batch = 2,
                                                       .in_h = 4,
                                                       .in_w = 5,
                                                       .in_c = 8,
                                                       .out_c = 8,
                                                       .kernel = 3,
                                                       .pad = 1,
                                                       .groups = groups});
    const Shape weights{8, 3, 3, 8 / groups};
    const OwnedTensor x = activations({2, 4, 5, 8}), w = activations(weights), dw = tensor(weights),
                      wrong = activations({5});
    const std::string image = type_ + " [2, 4, 5, 8]";
    const std::string kernel = " [8, 3, 3, " + std::to_string(8 / groups) + "]";
    const std::string five = " is " + type_ + " [5], expected ";
    EXPECT_EQ(refusal([&] { conv->forward(wrong, w, x); }), "conv2d.forward: x" + five + image);
    EXPECT_EQ(refusal([&] { conv->forward(x, wrong, x); }),
              "conv2d.forward: w" + five + type_ + kernel);
    EXPECT_EQ(refusal([&] { conv->backward_data(wrong, w, x); }),
              "conv2d.backward_data: dy" + five + image);
    EXPECT_EQ(refusal([&] { conv->backward_data(x, w, Tensor{}); }),
              "conv2d.backward_data: dx is null, expected " + image);
    EXPECT_EQ(refusal([&] { conv->backward_weights(x, wrong, dw, false); }),
              "conv2d.backward_weights: dy" + five + image);
    EXPECT_EQ(refusal([&] { conv->backward_weights(x, x, wrong, false); }),
              "conv2d.backward_weights: dw" + five + "fp32" + kernel);
  }
}

TEST_P(OpChecks, CoverPooling) {
  const Conv2dShape shape{.batch = 1,
                          .in_h = 4,
                          .in_w = 4,
                          .in_c = 2,
                          .out_c = 2,
                          .kernel = 2,
                          .stride = 2,
                          .groups = 2};
  const OwnedTensor x = activations(shape.x_shape()), y = activations(shape.y_shape()),
                    winners(*ops_, shape.y_shape(), DType::kUInt8), two = tensor({1, 2});
  EXPECT_EQ(refusal([&] { ops_->max_pool(shape, y, y, winners); }),
            "max_pool: x is " + type_ + " [1, 2, 2, 2], expected " + number() + " [1, 4, 4, 2]");
  EXPECT_EQ(refusal([&] { ops_->max_pool(shape, x, y, two); }),
            "max_pool: winners is fp32 [1, 2], expected uint8 [1, 2, 2, 2]");
  EXPECT_EQ(
      refusal([&] { ops_->max_pool_backward(shape, y, winners, y); }),
      "max_pool_backward: dx is " + type_ + " [1, 2, 2, 2], expected " + type_ + " [1, 4, 4, 2]");
  EXPECT_TRUE(ends_with(
      refusal([&] { ops_->max_pool({.in_h = 4, .in_w = 4, .in_c = 2, .out_c = 2}, x, y, {}); }),
      ": max_pool: the shape must be that of a depthwise convolution"));
  Conv2dShape outside = shape;
  outside.pad = 2;
  EXPECT_TRUE(ends_with(refusal([&] { ops_->max_pool(outside, x, y, {}); }),
                        ", and at least one of the image"));
  EXPECT_EQ(refusal([&] { ops_->average_pool(x, y); }),
            "average_pool: y is " + type_ + " [1, 2, 2, 2], expected " + number() + " [1, 2]");
  EXPECT_EQ(
      refusal([&] { ops_->average_pool_backward(x, x, false); }),
      "average_pool_backward: dy is " + type_ + " [1, 4, 4, 2], expected " + number() + " [1, 2]");
  const OwnedTensor half = activations({1, 2});
  EXPECT_EQ(refusal([&] { ops_->gate(x, y, x, x); }),
            "gate: logits is " + type_ + " [1, 2, 2, 2], expected " + type_ + " [1, 2]");
  EXPECT_EQ(refusal([&] { ops_->gate_backward(x, x, half, y, half); }),
            "gate_backward: dx is " + type_ + " [1, 2, 2, 2], expected " + type_ + " [1, 4, 4, 2]");
}

TEST_P(OpChecks, CoverTheSizesOfPlans) {
  EXPECT_TRUE(ends_with(refusal([&] { ops_->conv2d({.in_c = 3, .out_c = 4, .groups = 2}); }),
                        ": conv2d: groups must divide the channels"));
  EXPECT_TRUE(ends_with(refusal([&] { ops_->conv2d({.in_h = 2, .in_w = 2, .kernel = 7}); }),
                        ": conv2d: the kernel is larger than the padded image"));
  EXPECT_TRUE(ends_with(refusal([&] { ops_->batch_norm({.rows = 0, .channels = 4}); }),
                        ": batch_norm: sizes must be positive"));
}

TEST_P(OpChecks, CoverBatchNorm) {
  const std::unique_ptr<BatchNorm> norm = ops_->batch_norm({.rows = 2, .channels = 3});
  const OwnedTensor x = tensor({2, 3}), c = tensor({3}), wrong = tensor({4});
  EXPECT_EQ(refusal([&] { norm->statistics(wrong, c, c); }),
            "batch_norm.statistics: x is fp32 [4], expected " + number() + " [2, 3]");
  EXPECT_EQ(refusal([&] { norm->statistics(x, c, wrong); }),
            "batch_norm.statistics: variance is fp32 [4], expected fp32 [3]");

  const BatchNorm::Forward forward{.x = x, .mean = c, .variance = c, .gamma = c, .beta = c, .y = x};
  BatchNorm::Forward f = forward;
  f.gamma = wrong;
  EXPECT_EQ(refusal([&] { norm->forward(f); }),
            "batch_norm.forward: gamma is fp32 [4], expected fp32 [3]");
  f = forward;
  f.residual = wrong;
  EXPECT_EQ(refusal([&] { norm->forward(f); }),
            "batch_norm.forward: residual is fp32 [4], expected fp32 [2, 3]");
  f = forward;
  f.y_mean = c;
  EXPECT_EQ(refusal([&] { norm->forward(f); }),
            "batch_norm.forward: y_variance is null, expected fp32 [3]");
}

TEST_P(OpChecks, CoverTheBackwardPassesOfBatchNorm) {
  const std::unique_ptr<BatchNorm> norm = ops_->batch_norm({.rows = 2, .channels = 3});
  const OwnedTensor x = tensor({2, 3}), c = tensor({3}), wrong = tensor({4});
  const BatchNorm::Backward backward{.dy = x,
                                     .x = x,
                                     .mean = c,
                                     .variance = c,
                                     .gamma = c,
                                     .beta = c,
                                     .sum_dz = c,
                                     .sum_dz_xhat = c,
                                     .total_rows = 2,
                                     .dx = x};
  BatchNorm::Backward b = backward;
  b.dy = wrong;
  EXPECT_EQ(refusal([&] { norm->backward_reduce(b); }),
            "batch_norm.backward_reduce: dy is fp32 [4], expected fp32 [2, 3]");
  b = backward;
  b.slope = c;
  EXPECT_EQ(refusal([&] { norm->backward_reduce(b); }),
            "batch_norm.backward_reduce: dslope is null, expected fp32 [3]");
  b = backward;
  b.dx = wrong;
  EXPECT_EQ(refusal([&] { norm->backward_apply(b); }),
            "batch_norm.backward_apply: dx is fp32 [4], expected fp32 [2, 3]");
  b = backward;
  b.total_rows = 1;
  EXPECT_TRUE(ends_with(refusal([&] { norm->backward_apply(b); }),
                        ": batch_norm.backward_apply: total_rows is less than this worker's rows"));
}

TEST_P(OpChecks, AcceptEmptyTensors) {
  const OwnedTensor none = tensor({0}), no_rows = tensor({0, 3}), three = tensor({3});
  ops_->copy(none, none);
  ops_->fill(none, 1.f);
  ops_->convert(none, none);
  ops_->add(none, none, none);
  ops_->scale(none, 2.f, none);
  ops_->average(none, 0.5f, none);
  ops_->dropout(none, none, {});
  ops_->add_bias(no_rows, three);
  ops_->column_sums(no_rows, three, false);
  ops_->update_running_statistics({.mean = none,
                                   .variance = none,
                                   .total_rows = 1,
                                   .running_mean = none,
                                   .running_variance = none});
  ops_->gemm({.m = 0, .n = 3, .k = 2, .a = none, .b = tensor({2, 3}), .c = no_rows});
  ops_->normalise_rows(no_rows, no_rows, none);
  ops_->normalise_rows_backward(no_rows, no_rows, none, no_rows);
  EXPECT_EQ(ops_->sum_of_squares(none), 0.0);
  ops_->sgd({}, 1.f, none, none, none);
  ops_->adamw({}, 1.f, none, none, none, none);
  EXPECT_EQ(values(three), std::vector<float>(3));
}

INSTANTIATE_TEST_SUITE_P(Kernels, OpChecks, ::testing::ValuesIn(test_devices()), device_name);

}  // namespace
}  // namespace pfc
