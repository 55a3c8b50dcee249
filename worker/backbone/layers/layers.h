// Layers with one activation in and one out: convolution, linear, dropout.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/backbone/layers/layer.h"

namespace pfc {

/// Variables are borrowed and outlive the layer, here and below.
class ConvLayer : public Layer {
 public:
  ConvLayer(Ops& ops, const Conv2dShape& shape, Variable& x, Variable& weight, Variable& y);

  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;
  [[nodiscard]] double flops() const override;

 private:
  Ops& ops_;
  const Conv2dShape shape_;
  std::unique_ptr<Conv2d> conv_;
  Variable& x_;
  Variable& weight_;
  Variable& y_;
  Tensor dx_part_;  // this layer's share of x's gradient where another reader has made one
};

/// y [B, n] = x [B, k] weight^T [k, n] + bias. x may be [B, H, W, C]: flattened as it lies. y is
/// float32 whatever the activations are: it becomes the embedding, and the head works in float32.
class LinearLayer : public Layer {
 public:
  LinearLayer(Ops& ops, Variable& x, Variable& weight, Variable* bias, Variable& y);

  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;
  [[nodiscard]] double flops() const override;

 private:
  [[nodiscard]] Tensor flattened(const Tensor& x) const;
  [[nodiscard]] Tensor dy_as_operand();

  Ops& ops_;
  Variable& x_;
  Variable& weight_;
  Variable* bias_;  // null: none
  Variable& y_;
  Tensor dy_operand_;  // y's gradient in x's type, where that is not float32
  const std::int64_t rows_, in_, out_;
};

/// In place, on activation and gradient. The activation's other readers come behind this layer, and
/// the layer that made it needs it no more.
class DropoutLayer : public Layer {
 public:
  /// Every element of `options` but the step.
  DropoutLayer(Ops& ops, const DropoutOptions& options, Variable& x);

  [[nodiscard]] bool repeatable() const override { return false; }  // a new mask in every step
  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  Ops& ops_;
  DropoutOptions options_;
  Variable& x_;
};

}  // namespace pfc
