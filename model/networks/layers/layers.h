// Layers that read one activation and write one: convolution, linear, dropout.
#pragma once

#include <cstdint>
#include <memory>

#include "model/networks/layers/layer.h"

namespace pfc {

/// The variables of all layers are borrowed and outlive the layer.
class ConvLayer : public Layer {
 public:
  ConvLayer(Ops& ops, const Conv2dShape& shape, Variable& x, Variable& weight, Variable& y);

  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  Ops& ops_;
  const Conv2dShape shape_;
  std::unique_ptr<Conv2d> conv_;
  Variable& x_;
  Variable& weight_;
  Variable& y_;
  Tensor dx_part_;  // this layer's share of x's gradient if another layer has written the gradient
};

/// y [B, n] = x [B, k] weight^T [k, n] + bias. x may be [B, H, W, C], read as [B, H*W*C]. y is
/// always float32, because it becomes the embedding, and the head works in float32.
class LinearLayer : public Layer {
 public:
  LinearLayer(Ops& ops, Variable& x, Variable& weight, Variable* bias, Variable& y);

  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  [[nodiscard]] Tensor flattened(const Tensor& x) const;
  [[nodiscard]] Tensor dy_as_operand();
  // Each calls f(Gemm), so the planned and the computed product cannot differ.
  template <typename F>
  void product(const F& f) const;
  template <typename F>
  void weight_product(const Tensor& dy, bool accumulate, const F& f) const;
  template <typename F>
  void data_product(const Tensor& dy, const F& f) const;

  Ops& ops_;
  Variable& x_;
  Variable& weight_;
  Variable* bias_;  // null: none
  Variable& y_;
  Tensor dy_operand_;  // y's gradient in x's type, if that is not float32
  const std::int64_t rows_, in_, out_;
};

/// Changes the activation and its gradient in place. REQUIRES: other layers read the activation
/// only after this one, and the layer that made it does not read it again.
class DropoutLayer : public Layer {
 public:
  /// Ignores the step in `options`.
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
