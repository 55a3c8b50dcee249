// What SGD does to a class centre that takes no part in an update: its gradient is zero, but its
// momentum and weight decay move it on, as torch.optim.SGD does with a dense gradient.
//
// Such an update is linear in (w, v) and the same for every element of every row, so any number of
// them is one 2x2 matrix. A row that missed some is brought up to date by it when it is next used.
#pragma once

#include "kernels/math/host_device.h"
#include "kernels/math/optimizer.h"

namespace pfc {

/// w' = ww w + wv v, v' = vw w + vv v: of updates without a gradient; in float64, as there may be
/// very many of them.
struct MissedUpdates {
  double ww = 1, wv = 0;
  double vw = 0, vv = 1;
};

/// One: v' = mu v + wd w, w' = w - lr v' (sgd_update with g = 0).
PFC_HOST_DEVICE MissedUpdates missed_update(const SgdOptions& o) {
  const double lr{o.lr}, mu{o.momentum}, wd{o.weight_decay};
  return {.ww = 1 - lr * wd, .wv = -lr * mu, .vw = wd, .vv = mu};
}

/// First `a`, then `b`.
PFC_HOST_DEVICE MissedUpdates in_turn(const MissedUpdates& a, const MissedUpdates& b) {
  return {.ww = b.ww * a.ww + b.wv * a.vw,
          .wv = b.ww * a.wv + b.wv * a.vv,
          .vw = b.vw * a.ww + b.vv * a.vw,
          .vv = b.vw * a.wv + b.vv * a.vv};
}

/// MissedUpdates as a row is multiplied by it. What a step computes with is the caught-up centre
/// w' = ww w + wv v in float32; table and momentum stay as they are until the row's own update,
/// which catches up and moves in one pass.
struct CatchUp {
  float ww = 1, wv = 0;
  float vw = 0, vv = 1;
};

PFC_HOST_DEVICE CatchUp catch_up(const MissedUpdates& m) {
  return {.ww = static_cast<float>(m.ww),
          .wv = static_cast<float>(m.wv),
          .vw = static_cast<float>(m.vw),
          .vv = static_cast<float>(m.vv)};
}

}  // namespace pfc
