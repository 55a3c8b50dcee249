// Continues a job from snapshots in its workers' memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/comm.h"
#include "worker/snapshot/snapshot_choice.h"

namespace pfc {

/// Returns the snapshots in the workers' memory. Collective (host memory). Throws CommError.
SnapshotChoices look_for_snapshots(const SnapshotStore& store, const ClassPositions& positions,
                                   Comm& comm);

/// Returns why nothing newer than `images` images can be restored from memory: "the copies in
/// memory of step 7 lack the rows of rank 2, which no worker has". Empty if there is nothing
/// newer.
std::string why_not_from_memory(const SnapshotChoices& choices, const ClassPositions& positions,
                                std::int64_t images);

/// Restores the state from the snapshot, bit-identical to a checkpoint of that step. A row is sent
/// only if the worker that needs it has it neither as its own nor as a copy. The shared state is
/// sent only to workers that lack it. The store then keeps this snapshot. Collective. Returns the
/// bytes sent between workers. Throws CommError. REQUIRES: choice.whole(), and all workers have
/// made the same choice.
std::uint64_t load_snapshot(const SnapshotChoice& choice, SnapshotStore& store,
                            const TrainingState& state, Comm& comm);

}  // namespace pfc
