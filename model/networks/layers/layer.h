// The parts of a network: variables (tensors with gradients) and layers between them.
#pragma once

#include <cstdint>

#include "kernels/ops.h"
#include "model/networks/activation_plan.h"

namespace pfc {

/// A tensor and the gradient of the loss with respect to it. A parameter's tensors are views of
/// the arenas, an activation's are views of the planned buffer. Layers keep its address, which
/// does not change.
struct Variable {
  Tensor data;
  Tensor gradient;  ///< null for a parameter that is not trained
  /// Only for a parameter that matrix products read: data itself, or its part of
  /// Backbone::operands().
  Tensor operand;
  /// False for the images, for a frozen parameter, and for an activation that depends only on
  /// these.
  bool needs_gradient = true;

  Variable() = default;
  Variable(Shape shape, DType type) : data(nullptr, type, shape), gradient(nullptr, type, shape) {}
};

struct ForwardPass {
  bool training = false;  ///< enables batch statistics, dropout, drop path and the token mask
  std::int64_t step = 0;
  /// Computes the same activations again for the backward pass. Batch norms use the statistics of
  /// the first pass, and do not change the running ones.
  bool again = false;
};

/// One layer. Layers run in the order of creation, and in reverse in the backward pass.
///
/// Several layers may read the same activation. In the backward pass, the first of these layers
/// writes the activation's gradient. The others find that it exists (ActivationPlan::made), and add
/// to it. plan_backward() and backward() are called only if the layer's output needs a gradient.
class Layer {
 public:
  virtual ~Layer() = default;

  /// Record in the plan which tensors forward() and backward() make and use. With `training`
  /// false there is no backward pass.
  virtual void plan_forward(ActivationPlan& plan, bool training) = 0;
  virtual void plan_backward(ActivationPlan& plan) = 0;

  virtual void forward(const ForwardPass& pass) = 0;
  /// Overwrites the gradients of parameters, or adds to them with `accumulate`.
  virtual void backward(bool accumulate) = 0;

  /// Returns whether forward() and backward() enqueue the same ops in every training pass, and
  /// none that involve other workers.
  [[nodiscard]] virtual bool repeatable() const { return true; }
};

}  // namespace pfc
