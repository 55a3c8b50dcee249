// SGD's updates of a class centre that is not active. Its gradient is zero, but momentum and weight
// decay still move it, as torch.optim.SGD does with a dense gradient.
//
// Such an update is linear in weight w and velocity v, and the same for every element of every row.
// So any number of updates can be combined into one 2 x 2 matrix. A row is not touched while it is
// inactive; the matrix of the updates that it has missed is applied when it is next used.
#pragma once

#include "kernels/math/host_device.h"
#include "kernels/math/optimizer.h"

namespace pfc {

/// Any number of updates without a gradient, combined: w' = ww w + wv v, v' = vw w + vv v. In
/// float64, since there may be very many updates.
struct MissedUpdates {
  double ww = 1, wv = 0;
  double vw = 0, vv = 1;
};

/// One update: v' = mu v + wd w, w' = w - lr v' (sgd_update() with g = 0).
PFC_HOST_DEVICE MissedUpdates missed_update(const SgdOptions& o) {
  const double lr{o.lr}, mu{o.momentum}, wd{o.weight_decay};
  return {.ww = 1 - lr * wd, .wv = -lr * mu, .vw = wd, .vv = mu};
}

/// The updates `a` followed by the updates `b`.
PFC_HOST_DEVICE MissedUpdates in_turn(const MissedUpdates& a, const MissedUpdates& b) {
  return {.ww = b.ww * a.ww + b.wv * a.vw,
          .wv = b.ww * a.wv + b.wv * a.vv,
          .vw = b.vw * a.ww + b.vv * a.vw,
          .vv = b.vw * a.wv + b.vv * a.vv};
}

/// MissedUpdates in float32, as it is applied to a row. A step computes with the caught-up centre
/// w' = ww w + wv v. The stored weight and momentum stay as they are until the row's own update,
/// which applies the missed updates and the gradient in one pass.
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
