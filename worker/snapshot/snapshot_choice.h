// Which snapshot a job goes on from, and which rows of it move between which workers. Pure: all
// workers decide the same.
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

/// The parts of a snapshot that a worker holds. It holds none where id.trained.images is 0.
struct Held {
  SnapshotId id;
  std::int64_t own = -1, copy = -1;  ///< whose rows, as ranks of the snapshot's world; -1: none
  std::int64_t shared = 0;           ///< 1: what all workers have alike
};
using HeldSnapshots = std::array<Held, SnapshotStore::kKept>;
HeldSnapshots held_by(const SnapshotStore& store);

/// Who has the rows of one rank of a snapshot's world, as ranks of today; -1: nobody.
struct Holders {
  Rank own = -1;   ///< the worker that took them itself
  Rank copy = -1;  ///< the one that keeps their copy
};

struct SnapshotChoice {
  SnapshotId id;
  std::vector<Holders> parts;  ///< by rank of the snapshot's world
  std::vector<Rank> shared;    ///< who has what all workers have alike
  [[nodiscard]] std::vector<Rank> lost(std::int64_t classes) const;  ///< whose rows nobody has
  [[nodiscard]] bool whole(std::int64_t classes) const {
    return !shared.empty() && lost(classes).empty();
  }
};

/// The newest snapshot of which there is anything, and the newest of which there is everything.
/// `held`: by rank.
struct SnapshotChoices {
  std::optional<SnapshotChoice> newest;
  std::optional<SnapshotChoice> newest_whole;
};
SnapshotChoices choose_snapshot(std::span<const HeldSnapshots> held, std::int64_t classes);

/// Rows of one rank of the snapshot's world, from a worker that has them to the one that needs
/// them; both may be the same.
struct Move {
  Rank from = 0, to = 0;
  Rank part = 0;
  RowRange rows;
  [[nodiscard]] bool stays() const { return from == to; }
};
/// Every row once, in order. A worker that has a row, of its own or as a copy, keeps it; otherwise
/// it gets the row from the worker that took it itself, where that one is here. REQUIRES:
/// choice.whole().
std::vector<Move> plan_moves(const SnapshotChoice& choice, std::int64_t classes, int world_size);

/// "step 7, 3 of 4 parts from their own worker, 1 from its neighbour".
std::string where_from(const SnapshotChoice& choice);

}  // namespace pfc
