// The margin softmax's target logit and its gradient: additive angular margin (ArcFace, Deng et
// al., arXiv 1801.07698, equation 4: cos(m1 theta + m2) - m3 combines SphereFace, ArcFace and
// CosFace).
//
// The target logit is computed in float64 from the two vectors. Each sample has only a few, so this
// is cheap compared with the products with all other centres. A float32 cosine is not sufficient:
// near +-1 it hardly determines the angle (cos = 1 - 6e-8 is theta = 3.5e-4), and the margin's
// derivative divides by the sine of that angle.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/config/choices.h"
#include "kernels/math/host_device.h"

namespace pfc {

/// How a loss computes the logit of a sample's own class.
enum class TargetForm {
  kCombined,  ///< as margin_target() describes
  kAdaFace,   ///< limits cosine and angle by kAdaFaceEps, as AdaFace's code does
  kMagFace,   ///< no margin for an angle of pi / 2 or more: the "easy margin" of MagFace's code
  kCurricularFace,  ///< cos(theta) - m2 sin(m2) where theta + m2 is pi or more
  kPlain,           ///< the product of the two vectors, without margin or normalisation
};

/// The angle between two vectors a and b, accurate everywhere in [0, pi]. In a plain softmax, the
/// product a b replaces the cosine, and the lengths count as 1.
struct Angle {
  double cos = 0;
  double sin = 1;        ///< b/|b| - cos a/|a||: length of the component of b/|b| orthogonal to a
  double along = 0;      ///< cos; 0 for a plain softmax, whose gradient is not orthogonal
  double inverse_a = 0;  ///< 1 / |a|; 0 for a vector of zeros, whose angle to any vector is pi / 2
  double inverse_b = 0;
};

/// The inner products of two vectors, computed in one pass.
struct InnerProducts {
  double aa = 0, bb = 0, ab = 0;
};
PFC_HOST_DEVICE void add_element(InnerProducts& p, double a, double b) {
  p.aa += a * a;
  p.bb += b * b;
  p.ab += a * b;
}

/// Returns the angle without its sine. A second pass over the vectors computes the sine: sin^2 is
/// the sum of across_a(angle, a[i], b[i])^2.
PFC_HOST_DEVICE Angle angle_without_sine(const InnerProducts& p) {
  Angle angle;
  if (p.aa == 0 || p.bb == 0) return angle;
  angle.inverse_a = 1 / std::sqrt(p.aa);
  angle.inverse_b = 1 / std::sqrt(p.bb);
  angle.cos = angle.along = p.ab * angle.inverse_a * angle.inverse_b;
  return angle;
}

PFC_HOST_DEVICE Angle plain_product(const InnerProducts& p) {
  return {.cos = p.ab, .inverse_a = 1, .inverse_b = 1};
}

/// Returns one element of the component of b/|b| orthogonal to a; across_b swaps a and b.
PFC_HOST_DEVICE double across_a(const Angle& angle, double a, double b) {
  return b * angle.inverse_b - angle.along * (a * angle.inverse_a);
}
PFC_HOST_DEVICE double across_b(const Angle& angle, double a, double b) {
  return a * angle.inverse_a - angle.along * (b * angle.inverse_b);
}

PFC_HOST_DEVICE Angle angle_between(const float* a, const float* b, std::int64_t n,
                                    TargetForm form = TargetForm::kCombined) {
  InnerProducts products;
  for (std::int64_t i = 0; i < n; ++i) add_element(products, a[i], b[i]);
  if (form == TargetForm::kPlain) return plain_product(products);
  Angle angle = angle_without_sine(products);
  if (angle.inverse_a == 0) return angle;
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double part = across_a(angle, a[i], b[i]);
    squares += part * part;
  }
  angle.sin = std::sqrt(squares);
  return angle;
}

/// Returns whether a cosine with the next sub-centre of a class replaces the largest so far. A NaN
/// replaces any number and stays.
PFC_HOST_DEVICE bool replaces(double cosine, double largest) {
  return cosine > largest || std::isnan(cosine);
}

/// The margin of one sample, for losses whose margin differs between samples.
struct SampleMargin {
  Margin margin;
  double m2_slope = 0;     ///< d m2 / d |embedding|
  double regulariser = 0;  ///< d (loss - cross entropy) / d |embedding|
};

inline constexpr double kAdaFaceEps = 1e-3;

/// Returns x, limited to [low, high].
PFC_HOST_DEVICE double limited(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}

/// Returns m1 theta + m2.
PFC_HOST_DEVICE double margin_angle(const Margin& m, const Angle& angle) {
  return m.m1 * std::atan2(angle.sin, angle.cos) + m.m2;
}

/// Returns whether the margin is added to this angle.
PFC_HOST_DEVICE bool has_margin(const Margin& m, TargetForm form, const Angle& angle) {
  if (form == TargetForm::kMagFace) return angle.cos > 0;
  if (form == TargetForm::kPlain) return false;
  return form != TargetForm::kCurricularFace || angle.cos > -std::cos(m.m2);
}

/// Returns whether AdaFace's limits replace the cosine or the angle by a constant.
PFC_HOST_DEVICE bool is_limited(const Margin& m, const Angle& angle) {
  constexpr double kPi = 3.14159265358979323846;
  const double a = margin_angle(m, angle);
  return std::fabs(angle.cos) > 1 - kAdaFaceEps || a < kAdaFaceEps || a > kPi - kAdaFaceEps;
}

/// Returns the target cos(a) - m3, where a = m1 theta + m2.
///
/// Beyond a = pi the cosine rises again. With the exact gradient a sample there would be pushed
/// away from its centre, so the cosine is continued as psi of SphereFace (Liu et al., arXiv
/// 1704.08063): (-1)^k cos(a) - 2k for k pi <= a < (k + 1) pi. The target then decreases at every
/// angle, and its derivative is continuous. The straight-through gradient never changes its sign,
/// so with it the target is the plain cosine, as in arcface_torch.
PFC_HOST_DEVICE double margin_target(const Margin& m, MarginGradient gradient, const Angle& angle,
                                     TargetForm form = TargetForm::kCombined) {
  constexpr double kPi = 3.14159265358979323846;
  if (form == TargetForm::kAdaFace) {
    const double theta = std::acos(limited(angle.cos, kAdaFaceEps - 1, 1 - kAdaFaceEps));
    return std::cos(limited(m.m1 * theta + m.m2, kAdaFaceEps, kPi - kAdaFaceEps)) - m.m3;
  }
  if (!has_margin(m, form, angle)) {
    return angle.cos - (form == TargetForm::kCurricularFace ? m.m2 * std::sin(m.m2) : 0);
  }
  const double a = margin_angle(m, angle);
  if (gradient == MarginGradient::kStraightThrough) return std::cos(a) - m.m3;
  const double k = std::floor(a / kPi);
  const double sign = std::fmod(k, 2.0) == 0 ? 1.0 : -1.0;
  return sign * std::cos(a) - 2 * k - m.m3;
}

/// Returns d target / d cos: m1 |sin(m1 theta + m2)| / sin theta for the exact gradient, 1 for the
/// straight-through gradient.
///
/// The exact derivative grows like 1 / sin theta. It is only multiplied by the orthogonal
/// component of a unit vector, whose length is sin theta, so the gradient has the length m1
/// |sin(m1 theta + m2)|, which is finite everywhere. For parallel or opposite vectors the
/// direction of the gradient is undefined. The loss is symmetric around such a point, so the
/// result is 0 there, the mean over all directions: below 1e-13 the orthogonal component is only
/// rounding error of float64.
PFC_HOST_DEVICE double margin_slope(const Margin& m, MarginGradient gradient, const Angle& angle,
                                    TargetForm form = TargetForm::kCombined) {
  if (gradient == MarginGradient::kStraightThrough || !has_margin(m, form, angle)) return 1.0;
  if (angle.sin < 1e-13 || (form == TargetForm::kAdaFace && is_limited(m, angle))) return 0.0;
  return m.m1 * std::fabs(std::sin(margin_angle(m, angle))) / angle.sin;
}

/// Returns d loss / d |embedding| of one sample, if its margin or regulariser depends on the
/// length. d_target: d loss / d target. weight: the factor by which the sample's loss is
/// multiplied.
PFC_HOST_DEVICE double length_gradient(const SampleMargin& s, TargetForm form, const Angle& angle,
                                       double d_target, double weight) {
  const double d_m2 =
      has_margin(s.margin, form, angle) ? -std::sin(margin_angle(s.margin, angle)) : 0.0;
  return d_target * d_m2 * s.m2_slope + weight * s.regulariser;
}

}  // namespace pfc
