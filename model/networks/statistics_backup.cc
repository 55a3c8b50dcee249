#include "model/networks/statistics_backup.h"

#include "common/error.h"

namespace pfc {

StatisticsBackup::StatisticsBackup(Ops& ops, Backbone& backbone, bool needed)
    : ops_(ops), backbone_(backbone) {
  if (needed) state_ = OwnedTensor(ops, {backbone.state.count});
}

void StatisticsBackup::keep() {
  if (!state_) return;
  ops_.copy(backbone_.state.flat(), state_);
  batches_tracked_ = backbone_.batches_tracked;
}

void StatisticsBackup::restore() {
  check(bool(state_), "StatisticsBackup: nothing was kept");
  ops_.copy(state_, backbone_.state.flat());
  backbone_.batches_tracked = batches_tracked_;
}

}  // namespace pfc
