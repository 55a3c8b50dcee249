#include "worker/snapshot/snapshot_store.h"

namespace pfc {

Snapshot& SnapshotStore::make() {
  Snapshot& next = snapshots_[1 - newest_];
  next.id = {};
  next.has_own = next.has_copy = next.has_shared = false;
  return next;
}

void SnapshotStore::keep(const SnapshotId& id) {
  for (std::size_t i = 0; i < kKept; ++i) {
    if (snapshots_[i].id == id) newest_ = i;
  }
}

Snapshot* SnapshotStore::find(const SnapshotId& id) {
  for (Snapshot& snapshot : snapshots_) {
    if (snapshot.id == id) return &snapshot;
  }
  return nullptr;
}

std::size_t SnapshotStore::bytes() const {
  std::size_t sum = 0;
  for (const Snapshot& snapshot : snapshots_) sum += snapshot.bytes();
  return sum;
}

}  // namespace pfc
