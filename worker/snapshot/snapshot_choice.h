// Chooses the snapshot from which a job continues, and which rows must be sent between workers.
// Pure: all workers decide the same.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/class_positions.h"
#include "comm/shard.h"
#include "worker/snapshot/snapshot_store.h"

namespace pfc {

/// The parts of a snapshot that a worker holds. If id.trained.images is 0, it holds none.
struct Held {
  SnapshotId id;
  std::int64_t own = -1, copy = -1;  ///< owner of the rows, in the snapshot's world; -1 for none
  std::int64_t shared = 0;           ///< 1: has the shared state
};
using HeldSnapshots = std::array<Held, SnapshotStore::kKept>;
HeldSnapshots held_by(const SnapshotStore& store);

/// Current ranks of the workers that hold the rows of one rank of the snapshot's world; -1: no
/// worker holds them.
struct Holders {
  Rank own = -1;   ///< the worker that took the rows
  Rank copy = -1;  ///< the worker that keeps a copy of the rows
};

struct SnapshotChoice {
  SnapshotId id;
  std::vector<Holders> parts;  ///< one for each rank of the snapshot's world
  std::vector<Rank> shared;    ///< workers that have the shared state
  /// Returns the ranks whose rows are lost.
  [[nodiscard]] std::vector<Rank> lost(const ClassPositions& positions) const;
  [[nodiscard]] bool whole(const ClassPositions& positions) const {
    return !shared.empty() && lost(positions).empty();
  }
};

/// `newest`: the newest snapshot of which any part exists. `newest_whole`: the newest complete
/// snapshot. `held`: by rank.
struct SnapshotChoices {
  std::optional<SnapshotChoice> newest;
  std::optional<SnapshotChoice> newest_whole;
};
SnapshotChoices choose_snapshot(std::span<const HeldSnapshots> held,
                                const ClassPositions& positions);

/// Rows of one rank of the snapshot's world. They go from a worker that has them to a worker that
/// needs them, which may be the same worker.
struct Move {
  Rank from = 0, to = 0;
  Rank part = 0;
  RowRange rows;
  [[nodiscard]] bool stays() const { return from == to; }
};
/// Returns moves that together cover every row once, in order. If the new owner of a row already
/// has it, as its own or as a copy, the row stays there. Otherwise the worker that took the row
/// sends it, or if that worker is gone, the worker that has the copy. REQUIRES: choice.whole().
std::vector<Move> plan_moves(const SnapshotChoice& choice, const ClassPositions& positions,
                             int world_size);

/// Returns "step 7, 3 of 4 parts from their own worker, 1 from the neighbour that kept a copy".
std::string where_from(const SnapshotChoice& choice);

}  // namespace pfc
