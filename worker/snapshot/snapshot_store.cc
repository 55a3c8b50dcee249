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

std::size_t snapshots_bytes(const HeadMemory& head, const BackboneMemory& backbone,
                            std::size_t optimizer_bytes, std::int64_t updates, int world_size) {
  const std::size_t shared = backbone.weights + backbone.state + optimizer_bytes +
                             head.saved_neighbours +
                             static_cast<std::size_t>(updates) * sizeof(PastUpdate);
  return SnapshotStore::kKept * (shared + head.rows() * (world_size > 1 ? 2 : 1));
}

}  // namespace pfc
