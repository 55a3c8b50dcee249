// A job that goes on from snapshots in its workers' memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/comm.h"
#include "worker/snapshot/snapshot_choice.h"

namespace pfc {

/// What is in the workers' memory. Collective; `comm` is of host memory. Throws CommError.
SnapshotChoices look_for_snapshots(const SnapshotStore& store, std::int64_t classes, Comm& comm);

/// Why nothing newer than `images` images can be taken from memory: "the copies in memory of step 7
/// lack the rows of rank 2, which no worker has". Empty where nothing newer is there.
std::string why_not_from_memory(const SnapshotChoices& choices, std::int64_t classes,
                                std::int64_t images);

/// Sets the state to the snapshot's, with the bits of a checkpoint of that step. A row travels only
/// where the worker that needs it has it neither as its own nor as a copy; the backbone only to
/// those who do not have it. The store then keeps this snapshot. Collective. Returns the bytes that
/// were sent between workers. Throws CommError. REQUIRES: choice.whole(), and all workers have
/// chosen the same.
std::uint64_t load_snapshot(const SnapshotChoice& choice, SnapshotStore& store,
                            const TrainingState& state, Comm& comm);

}  // namespace pfc
