// Holds the snapshots of one worker. Outlives the generations that took them.
#pragma once

#include <array>
#include <cstddef>

#include "worker/snapshot/snapshot.h"

namespace pfc {

/// Used by the training thread. The thread of a SnapshotMaker completes the snapshot in progress. A
/// new snapshot is made in the slot that does not have the newest complete snapshot, so that one
/// remains until all workers have the new one.
class SnapshotStore {
 public:
  static constexpr std::size_t kKept = 2;

  /// Returns the snapshot to overwrite next, which is not the newest one. Marks all its parts as
  /// missing.
  [[nodiscard]] Snapshot& make();
  /// Keeps this snapshot until the next call of keep(): all workers have it, or continue from it.
  void keep(const SnapshotId& id);
  /// Returns nullptr if this worker has no part of it.
  [[nodiscard]] Snapshot* find(const SnapshotId& id);
  [[nodiscard]] const std::array<Snapshot, kKept>& all() const { return snapshots_; }
  [[nodiscard]] std::size_t bytes() const;  ///< memory used

 private:
  std::array<Snapshot, kKept> snapshots_;
  std::size_t newest_ = 0;
};

/// Returns the maximum memory of one worker's snapshots after this many updates: that of rank 0,
/// whose shard is the largest.
std::size_t snapshots_bytes(const HeadMemory& head, const BackboneMemory& backbone,
                            std::size_t optimizer_bytes, std::int64_t updates, int world_size);

}  // namespace pfc
