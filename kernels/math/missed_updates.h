// Optimizer updates of an inactive class centre. Its gradient is zero, but momentum and weight
// decay still move it, as torch.optim.SGD and AdamW do with a dense gradient.
//
// Such updates are the same for every element of every row, and any number of them can be combined
// into a few numbers. A row is not touched while it is inactive; the combination of its missed
// updates is applied when it is next used.
//
// SGD is linear in weight w and velocity v, so the combination is a 2 x 2 matrix.
//
// AdamW divides the first moment m by sqrt(v / bias_correction2) + eps, where v is the second
// moment. If sqrt(v) is far above eps it is linear in w and x = m / sqrt(v): both moments shrink
// by a constant factor, so x does too. If sqrt(v) is far below eps it is linear in w and m. The
// combination moves w by wv m / (sqrt(v) + E), with E such that both cases are exact. docs/head.md
// describes the loss of accuracy between them.
#pragma once

#include <cmath>

#include "kernels/math/host_device.h"
#include "kernels/math/optimizer.h"

namespace pfc {

/// A combination of any number of updates without a gradient. In float64, because there may be
/// very many.
///   SGD:   w' = ww w + wv v,                              v' = vw w + vv v
///   AdamW: w' = ww w + wv x         without eps,          x' = vv x
///          w' = ww w + wm m / eps   without second moment, m' = mm m, v' = nn v
struct MissedUpdates {
  double ww = 1, wv = 0;
  double vw = 0, vv = 1;
  double wm = 0, mm = 1;
  double nn = 1;
};

/// One update: v' = mu v + wd w, w' = w - lr v' (sgd_update() with g = 0).
PFC_HOST_DEVICE MissedUpdates missed_update(const SgdOptions& o) {
  const double lr{o.lr}, mu{o.momentum}, wd{o.weight_decay};
  return {.ww = 1 - lr * wd, .wv = -lr * mu, .vw = wd, .vv = mu};
}

/// One update: adamw_update() with g = 0. The centre moves by lr beta1 / bias_correction1 times
/// m / (s sqrt(v) + eps) with s = sqrt(beta2 / bias_correction2).
inline MissedUpdates missed_update(const AdamWOptions& o) {
  const double lr{o.lr}, wd{o.weight_decay}, beta1{o.beta1}, beta2{o.beta2};
  const double step = lr * beta1 / double{o.bias_correction1};
  const double s = std::sqrt(beta2 / double{o.bias_correction2});
  return {.ww = 1 - lr * wd,
          .wv = -step / s,
          .vv = beta1 / std::sqrt(beta2),
          .wm = -step,
          .mm = beta1,
          .nn = beta2};
}

/// Returns the updates `a` followed by the updates `b`.
PFC_HOST_DEVICE MissedUpdates in_turn(const MissedUpdates& a, const MissedUpdates& b) {
  return {.ww = b.ww * a.ww + b.wv * a.vw,
          .wv = b.ww * a.wv + b.wv * a.vv,
          .vw = b.vw * a.ww + b.vv * a.vw,
          .vv = b.vw * a.wv + b.vv * a.vv,
          .wm = b.ww * a.wm + b.wm * a.mm,
          .mm = b.mm * a.mm,
          .nn = b.nn * a.nn};
}

/// MissedUpdates in float32, in the form applied to a row. A step computes with the caught-up
/// centre. The stored numbers do not change until the row's own update, which applies the missed
/// updates and the gradient in one pass.
///   SGD:   w' = ww w + wv v,                       v' = vw w + vv v
///   AdamW: w' = ww w + wv m / (sqrt(v) + eps),     m' = vv m, v' = second v
struct CatchUp {
  float ww = 1, wv = 0;
  float vw = 0, vv = 1;
  float second = 1, eps = 0;
};

PFC_HOST_DEVICE CatchUp sgd_catch_up(const MissedUpdates& m) {
  return {.ww = static_cast<float>(m.ww),
          .wv = static_cast<float>(m.wv),
          .vw = static_cast<float>(m.vw),
          .vv = static_cast<float>(m.vv)};
}

/// eps: as in AdamWOptions.
PFC_HOST_DEVICE CatchUp adamw_catch_up(const MissedUpdates& m, double eps) {
  return {.ww = static_cast<float>(m.ww),
          .wv = static_cast<float>(m.wv),
          .vv = static_cast<float>(m.mm),
          .second = static_cast<float>(m.nn),
          .eps = static_cast<float>(m.wm == 0 ? eps : eps * m.wv / m.wm)};
}

/// Applies SGD's missed updates to an element of a row: weight and velocity.
PFC_HOST_DEVICE void apply_sgd(const CatchUp& c, float& w, float& v) {
  const float before = w;
  w = c.ww * before + c.wv * v;
  v = c.vw * before + c.vv * v;
}

/// Applies AdamW's missed updates to an element of a row: weight, first and second moment.
PFC_HOST_DEVICE void apply_adamw(const CatchUp& c, float& w, float& m, float& v) {
  w = c.ww * w + c.wv * (m / (std::sqrt(v) + c.eps));
  m = c.vv * m;
  v = c.second * v;
}

}  // namespace pfc
