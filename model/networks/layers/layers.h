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
  // This layer's part of x's gradient, if another layer has already written that gradient.
  Tensor dx_part_;
};

/// The number of rows of a tensor. It may be smaller in training than otherwise, because a network
/// may mask tokens. Tensors have memory for all rows; in training they use the first rows.
struct Rows {
  std::int64_t all = 0, in_training = 0;

  [[nodiscard]] std::int64_t of(bool training) const { return training ? in_training : all; }
};

/// The inputs, parameters and output of a linear layer. Borrowed; optional ones may be null.
struct LinearVariables {
  Variable* x = nullptr;
  Variable* weight = nullptr;
  Variable* bias = nullptr;
  Variable* y = nullptr;
  Rows rows = {};
  bool relu6 = false;  ///< y = min(max(x weight^T + bias, 0), 6); needs a bias
};

/// y [rows, n] = x [rows, k] weight^T [k, n] + bias. x may be [B, H, W, C], read as [B, H*W*C]. y
/// is float32 if it is the embedding, because the head reads float32, or if it is part of a sum.
class LinearLayer : public Layer {
 public:
  LinearLayer(Ops& ops, const LinearVariables& variables);

  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  [[nodiscard]] Tensor rows_of(const Tensor& x, std::int64_t rows) const;
  [[nodiscard]] Tensor dy_as_operand();
  // Each of these calls f(Gemm), so the planned and the computed product cannot differ.
  template <typename F>
  void product(std::int64_t rows, const F& f) const;
  template <typename F>
  void weight_product(const Tensor& dy, bool accumulate, const F& f) const;
  template <typename F>
  void data_product(const Tensor& dy, const F& f) const;

  Ops& ops_;
  const LinearVariables v_;
  const std::int64_t in_, out_;
  Tensor dy_operand_;  // y's gradient in x's type, if the types differ
};

/// Changes the activation and its gradient in place. REQUIRES: other layers read the activation
/// only after this layer, and the layer that made it does not read it again.
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
