// Layers of image classifiers: ReLU, max pooling, the average over all pixels, and gates.
#pragma once

#include "model/networks/layers/layer.h"

namespace pfc {

/// Changes the activation and its gradient in place. REQUIRES: other layers read the activation
/// only after this layer, and the layer that made it does not read it again.
class ReluLayer : public Layer {
 public:
  ReluLayer(Ops& ops, Variable& x) : ops_(ops), x_(x) {}

  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  Ops& ops_;
  Variable& x_;
};

/// REQUIRES: no other layer reads x.
class MaxPoolLayer : public Layer {
 public:
  MaxPoolLayer(Ops& ops, const Conv2dShape& shape, Variable& x, Variable& y);

  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  Ops& ops_;
  const Conv2dShape shape_;
  Variable& x_;
  Variable& y_;
  Tensor winners_;  // uint8, the shape of y; only for the backward pass
};

/// y, [B, C] or [B, 1, 1, C], is the mean of x [B, H, W, C] over its pixels.
class AveragePoolLayer : public Layer {
 public:
  AveragePoolLayer(Ops& ops, Variable& x, Variable& y) : ops_(ops), x_(x), y_(y) {}

  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  Ops& ops_;
  Variable& x_;
  Variable& y_;
  bool adds_to_dx_ = false;  // another layer that reads x has already written x's gradient
};

/// y = x * sigmoid(logits) + residual (Ops::gate). REQUIRES: this layer is the last one that reads
/// x.
class GateLayer : public Layer {
 public:
  GateLayer(Ops& ops, Variable& x, Variable& logits, Variable& residual, Variable& y)
      : ops_(ops), x_(x), logits_(logits), residual_(residual), y_(y) {}

  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  Ops& ops_;
  Variable& x_;
  Variable& logits_;
  Variable& residual_;
  Variable& y_;
};

}  // namespace pfc
