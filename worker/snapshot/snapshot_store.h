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

}  // namespace pfc
