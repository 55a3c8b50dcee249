// What a network is made of: variables (tensors with gradients) and layers between them.
#pragma once

#include <cstdint>

#include "kernels/ops.h"
#include "worker/backbone/activation_plan.h"

namespace pfc {

/// A tensor and the loss's gradient with respect to it: a parameter (views of the arenas) or an
/// activation (views of the planned buffer). Its address is constant; layers keep it.
struct Variable {
  Tensor data;
  Tensor gradient;             ///< of a parameter: null when it is not trained
  Tensor operand;              ///< of a parameter: what products read, data itself or its copy in
                               ///< the activations' type, made anew before each forward pass
  bool needs_gradient = true;  ///< false: the images

  Variable() = default;
  Variable(Shape shape, DType type) : data(nullptr, type, shape), gradient(nullptr, type, shape) {}
};

struct ForwardPass {
  bool training = false;  ///< batch statistics, dropout
  std::int64_t step = 0;
};

/// One layer. Layers run in the order in which they were made, and backwards in the reverse order.
///
/// An activation with several readers gets its gradient from them in turn: the first one in the
/// backward pass makes it, the others find it made (ActivationPlan::made) and add to it.
class Layer {
 public:
  virtual ~Layer() = default;

  /// The rehearsal: which tensors forward and backward make and use. `training` false: there will
  /// be no backward pass.
  virtual void plan_forward(ActivationPlan& plan, bool training) = 0;
  virtual void plan_backward(ActivationPlan& plan) = 0;

  virtual void forward(const ForwardPass& pass) = 0;
  /// Parameter gradients are overwritten, or added to when `accumulate`.
  virtual void backward(bool accumulate) = 0;

  /// Whether forward and backward enqueue the same ops in every training pass, on this device
  /// alone.
  [[nodiscard]] virtual bool repeatable() const { return true; }

  /// Forward, for the whole batch, multiply and add as two; only what grows with in_c * out_c.
  [[nodiscard]] virtual double flops() const { return 0; }
};

}  // namespace pfc
