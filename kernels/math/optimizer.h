// Optimizer update of one element of the backbone or a class centre, for every device.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/math/host_device.h"

namespace pfc {

struct SgdOptions {
  float lr = 0.1f;
  float momentum = 0.9f;
  float weight_decay = 5e-4f;
};

/// Computes v = mu v + (g + wd w); w -= lr v: same as torch.optim.SGD without dampening or
/// Nesterov momentum.
PFC_HOST_DEVICE void sgd_update(const SgdOptions& o, float g, float& w, float& v) {
  v = o.momentum * v + (g + o.weight_decay * w);
  w -= o.lr * v;
}

struct AdamWOptions {
  float lr = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float weight_decay = 0.1f;
  float bias_correction1 = 1.f;  ///< 1 - beta1^t for update number t, from 1
  float bias_correction2 = 1.f;  ///< 1 - beta2^t
};

/// Returns the options of update number `update`, from 1. Betas and eps are the defaults above.
inline AdamWOptions adamw_options(double lr, double weight_decay, std::int64_t update) {
  AdamWOptions o{.lr = static_cast<float>(lr), .weight_decay = static_cast<float>(weight_decay)};
  const auto t = static_cast<double>(update);
  o.bias_correction1 = static_cast<float>(1 - std::pow(double{o.beta1}, t));
  o.bias_correction2 = static_cast<float>(1 - std::pow(double{o.beta2}, t));
  return o;
}

/// Applies decoupled weight decay and the update (Loshchilov and Hutter, arXiv 1711.05101,
/// algorithm 2; same as torch.optim.AdamW).
PFC_HOST_DEVICE void adamw_update(const AdamWOptions& o, float g, float& w, float& m, float& v) {
  w -= o.lr * o.weight_decay * w;
  m = o.beta1 * m + (1.f - o.beta1) * g;
  v = o.beta2 * v + (1.f - o.beta2) * g * g;
  const float denominator = std::sqrt(v / o.bias_correction2) + o.eps;
  w -= o.lr * (m / o.bias_correction1) / denominator;
}

/// The formulas as function objects, for code that supports both optimizers: g is the gradient, w
/// the weight, followed by the first and second state of the optimizer.
struct SgdRule {
  static constexpr bool kSecond = false;  ///< whether the optimizer has a second moment
  SgdOptions o;
  PFC_HOST_DEVICE void operator()(float g, float& w, float& v, float& /*unused*/) const {
    sgd_update(o, g, w, v);
  }
};

struct AdamWRule {
  static constexpr bool kSecond = true;
  AdamWOptions o;
  PFC_HOST_DEVICE void operator()(float g, float& w, float& m, float& v) const {
    adamw_update(o, g, w, m, v);
  }
};

}  // namespace pfc
