// The snapshots of one worker, which outlive the generations that took them.
#pragma once

#include <array>
#include <cstddef>

#include "worker/snapshot/snapshot.h"

namespace pfc {

/// Belongs to the training thread; the thread of a SnapshotMaker completes the snapshot that is
/// being made. A new snapshot is made beside the newest whole one, which stays until all workers
/// have the new one.
class SnapshotStore {
 public:
  static constexpr std::size_t kKept = 2;

  /// The snapshot to be overwritten next: one that is not the newest. Its parts count as lost.
  [[nodiscard]] Snapshot& make();
  /// All workers have this one, or go on from it. It stays until the next call.
  void keep(const SnapshotId& id);
  /// Null where this worker has no part of it.
  [[nodiscard]] Snapshot* find(const SnapshotId& id);
  [[nodiscard]] const std::array<Snapshot, kKept>& all() const { return snapshots_; }
  [[nodiscard]] std::size_t bytes() const;  ///< of memory

 private:
  std::array<Snapshot, kKept> snapshots_;
  std::size_t newest_ = 0;
};

/// The most memory that the snapshots of one worker take after so many updates: those of rank 0,
/// whose shard is the largest.
std::size_t snapshots_bytes(const HeadMemory& head, const BackboneMemory& backbone,
                            std::size_t optimizer_bytes, std::int64_t updates, int world_size);

}  // namespace pfc
