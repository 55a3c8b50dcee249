// Layers of vision transformers. Activations are tokens [B, T, D]. In training a network may mask
// tokens: then T is `tokens.in_training`, and layers use only the start of their tensors' memory.
#pragma once

#include <cstdint>
#include <memory>

#include "model/networks/layers/layer.h"
#include "model/networks/layers/layers.h"

namespace pfc {

/// Returns the first [B, tokens of this pass, n] numbers of x [B, T, n].
Tensor tokens_of(const Tensor& x, const Rows& tokens, bool training);

/// y = x + bias [D] + positions [T, D], as float32.
class PositionLayer : public Layer {
 public:
  PositionLayer(Ops& ops, Variable& x, Variable& bias, Variable& positions, Variable& y);

  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  [[nodiscard]] bool converts() const { return x_.data.dtype != y_.data.dtype; }
  Ops& ops_;
  Variable& x_;
  Variable& bias_;
  Variable& positions_;
  Variable& y_;
};

/// Keeps some tokens of each sample in training, and all otherwise.
class KeepLayer : public Layer {
 public:
  /// Ignores the step in `mask`.
  KeepLayer(Ops& ops, const TokenMask& mask, const Rows& tokens, Variable& x, Variable& y);

  /// Returns each token's place among the kept tokens, or -1 (Ops::choose_tokens).
  [[nodiscard]] Tensor& places() { return places_; }
  [[nodiscard]] bool repeatable() const override { return false; }  // a new mask in every step
  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  Ops& ops_;
  TokenMask mask_;
  const Rows tokens_;
  Variable& x_;
  Variable& y_;
  Tensor places_;  // int64 [B, T]
};

/// In training, puts the kept tokens back in their places. Every other place gets `token` [D].
class RestoreLayer : public Layer {
 public:
  RestoreLayer(Ops& ops, Tensor& places, const Rows& tokens, Variable& x, Variable& token,
               Variable& y);

  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  Ops& ops_;
  Tensor& places_;
  const Rows tokens_;
  Variable& x_;
  Variable& token_;
  Variable& y_;
};

/// Layer norm of each token. x is float32.
class LayerNormLayer : public Layer {
 public:
  LayerNormLayer(Ops& ops, const Rows& tokens, Variable& x, Variable& gamma, Variable& beta,
                 Variable& y);

  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  Ops& ops_;
  const Rows tokens_;
  Variable& x_;
  Variable& gamma_;
  Variable& beta_;
  Variable& y_;
  bool adds_to_dx_ = false;  // another layer that reads x has already written x's gradient
  Tensor statistics_;        // [B T, 2]
};

/// Attention between the tokens of each sample. x: queries, keys and values, [B, T, 3 D].
class AttentionLayer : public Layer {
 public:
  AttentionLayer(Ops& ops, const AttentionShape& shape, const Rows& tokens, Variable& x,
                 Variable& y);

  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  const Rows tokens_;
  std::unique_ptr<Attention> of_all_, in_training_;
  Variable& x_;
  Variable& y_;
};

/// y = x + branch; float32. In training, drop path (Huang et al., "Deep networks with stochastic
/// depth", arXiv 1603.09382) leaves out the branch of a sample with the probability in `path`, and
/// otherwise divides it by the probability of keeping it. Overwrites the branch.
class AddLayer : public Layer {
 public:
  /// Ignores the step and group in `path`.
  AddLayer(Ops& ops, const DropoutOptions& path, const Rows& tokens, Variable& x, Variable& branch,
           Variable& y);

  [[nodiscard]] bool repeatable() const override { return path_.probability == 0; }
  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  Ops& ops_;
  DropoutOptions path_;
  const Rows tokens_;
  Variable& x_;
  Variable& branch_;
  Variable& y_;
};

/// Converts x to the type of y.
class ConvertLayer : public Layer {
 public:
  ConvertLayer(Ops& ops, Variable& x, Variable& y) : ops_(ops), x_(x), y_(y) {}

  void plan_forward(ActivationPlan& plan, bool training) override;
  void plan_backward(ActivationPlan& plan) override;
  void forward(const ForwardPass& pass) override;
  void backward(bool accumulate) override;

 private:
  Ops& ops_;
  Variable& x_;
  Variable& y_;
};

}  // namespace pfc
