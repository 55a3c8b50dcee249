// Chooses the snapshot from which a job continues, and which rows must be sent between workers.
// Pure: all workers decide the same.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/shard.h"
#include "worker/snapshot/snapshot_store.h"

namespace pfc {

/// Parts of a snapshot that a worker holds. None if id.trained.images is 0.
struct Held {
  SnapshotId id;
  std::int64_t own = -1, copy = -1;  ///< owner of the rows, in the snapshot's world; -1 for none
  std::int64_t shared = 0;           ///< 1: has the shared state
};
using HeldSnapshots = std::array<Held, SnapshotStore::kKept>;
HeldSnapshots held_by(const SnapshotStore& store);

/// Current ranks of the workers that hold the rows of one rank of the snapshot's world; -1 for
/// none.
struct Holders {
  Rank own = -1;   ///< the worker that took them
  Rank copy = -1;  ///< the worker that keeps their copy
};

struct SnapshotChoice {
  SnapshotId id;
  std::vector<Holders> parts;  ///< one for each rank of the snapshot's world
  std::vector<Rank> shared;    ///< workers that have the shared state
  [[nodiscard]] std::vector<Rank> lost(std::int64_t classes) const;  ///< ranks whose rows are lost
  [[nodiscard]] bool whole(std::int64_t classes) const {
    return !shared.empty() && lost(classes).empty();
  }
};

/// The newest snapshot of which any part exists, and the newest complete one. `held`: by rank.
struct SnapshotChoices {
  std::optional<SnapshotChoice> newest;
  std::optional<SnapshotChoice> newest_whole;
};
SnapshotChoices choose_snapshot(std::span<const HeldSnapshots> held, std::int64_t classes);

/// Rows of one rank of the snapshot's world, sent from a worker that has them to one that needs
/// them; both may be the same.
struct Move {
  Rank from = 0, to = 0;
  Rank part = 0;
  RowRange rows;
  [[nodiscard]] bool stays() const { return from == to; }
};
/// Returns moves that cover every row once, in order. If the new owner of a row has it, as its own
/// or as a copy, the row stays there; otherwise the worker that took it sends it if present.
/// REQUIRES: choice.whole().
std::vector<Move> plan_moves(const SnapshotChoice& choice, std::int64_t classes, int world_size);

/// Returns "step 7, 3 of 4 parts from their own worker, 1 from the neighbour that kept a copy".
std::string where_from(const SnapshotChoice& choice);

}  // namespace pfc
