// The margin softmax's target logit and its gradient: additive angular margin (ArcFace, Deng et
// al., arXiv 1801.07698, equation 4: cos(m1 theta + m2) - m3 combines SphereFace, ArcFace and
// CosFace).
//
// A step has one target a sample, so the target is computed in float64 from the vectors themselves,
// at no cost beside the products with all other centres. In float32, cos = 1 - 6e-8 is theta
// = 3.5e-4: a cosine near +-1 says next to nothing about the angle, and the margin's derivative
// divides by it.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/config.h"
#include "kernels/math/host_device.h"

namespace pfc {

/// The angle between two vectors a and b, without cancellation anywhere in [0, pi].
struct Angle {
  double cos = 0;
  double sin = 1;        ///< |b/|b| - cos a/|a||, the length of the part of b/|b| across a
  double inverse_a = 0;  ///< 1 / |a|; 0 for a vector of zeros, which has angle pi / 2 to everything
  double inverse_b = 0;
};

PFC_HOST_DEVICE Angle angle_between(const float* a, const float* b, std::int64_t n) {
  double aa = 0, bb = 0, ab = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    aa += double{a[i]} * double{a[i]};
    bb += double{b[i]} * double{b[i]};
    ab += double{a[i]} * double{b[i]};
  }
  Angle angle;
  if (aa == 0 || bb == 0) return angle;
  angle.inverse_a = 1 / std::sqrt(aa);
  angle.inverse_b = 1 / std::sqrt(bb);
  angle.cos = ab * angle.inverse_a * angle.inverse_b;
  double across = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double part = b[i] * angle.inverse_b - angle.cos * (a[i] * angle.inverse_a);
    across += part * part;
  }
  angle.sin = std::sqrt(across);
  return angle;
}

/// cos(m1 theta + m2) - m3.
PFC_HOST_DEVICE double margin_target(const Margin& m, const Angle& angle) {
  return std::cos(m.m1 * std::atan2(angle.sin, angle.cos) + m.m2) - m.m3;
}

/// d target / d cos: exact, m1 sin(m1 theta + m2) / sin theta; or straight through, 1.
///
/// The exact one grows like 1 / sin theta, but it only ever multiplies the part of one unit vector
/// across the other, whose length is sin theta: the gradient's length is m1 |sin(m1 theta + m2)|,
/// finite everywhere. Where the vectors are parallel or opposite only its direction is undefined:
/// the loss has a cone's tip there, alike in all directions, and 0 is the gradient by symmetry (the
/// mean over all directions). Below 1e-13 the part across is float64's rounding error, not a
/// direction.
PFC_HOST_DEVICE double margin_slope(const Margin& m, MarginGradient gradient, const Angle& angle) {
  if (gradient == MarginGradient::kStraightThrough) return 1.0;
  if (angle.sin < 1e-13) return 0.0;
  return m.m1 * std::sin(m.m1 * std::atan2(angle.sin, angle.cos) + m.m2) / angle.sin;
}

}  // namespace pfc
