// The optimizers' formulas (kernels/math/optimizer.h) as what kernels are made from: of one
// element, (gradient, weight, momentum or first moment, second moment).
#pragma once

#include <cuda_runtime.h>

#include "kernels/math/optimizer.h"

namespace pfc {

struct SgdRule {
  static constexpr bool kSecond = false;  ///< whether it has a second moment
  SgdOptions o;
  __device__ void operator()(float g, float& w, float& v, float& /*unused*/) const {
    sgd_update(o, g, w, v);
  }
};

struct AdamWRule {
  static constexpr bool kSecond = true;
  AdamWOptions o;
  __device__ void operator()(float g, float& w, float& m, float& v) const {
    adamw_update(o, g, w, m, v);
  }
};

}  // namespace pfc
