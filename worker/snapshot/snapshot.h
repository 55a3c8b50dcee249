// A snapshot in host memory: this worker's class centres, a copy of another worker's centres, and
// the state that all workers share. After a failure, the lost rows are restored from the worker
// that keeps their copy, without reading the disk.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/shard.h"
#include "common/ids.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/schedule/step_plan.h"

namespace pfc {

/// Identifies the state in a snapshot. All workers take a snapshot after the same step. Of two ids
/// the greater one is newer: its state was trained on more images, or on as many images in a later
/// generation.
struct SnapshotId {
  TrainedSoFar trained;  ///< 0 images: there is no snapshot
  Generation generation = 0;
  std::int64_t world_size = 0;
  friend auto operator<=>(const SnapshotId&, const SnapshotId&) = default;
};

/// Tensors with a value for each row: centres, momentum, AdamW's second moment, the scales of
/// centres and of momentum, and the number of updates that a row has seen. Those that a job does
/// not have are empty. They keep the device's format, so nothing is rounded.
inline constexpr std::size_t kRowTensors = 6;
using RowTensors = std::array<std::vector<std::byte>, kRowTensors>;
using RowBytes = std::array<std::size_t, kRowTensors>;  ///< bytes of one row in each tensor

/// Rows of one worker.
struct SnapshotRows {
  Rank rank = -1;  ///< rank in the generation that took the snapshot; -1: no rows
  RowRange rows;
  RowTensors tensors;

  /// Returns rows of a tensor. REQUIRES: `wanted` is within `rows`.
  [[nodiscard]] std::span<const std::byte> of(std::size_t tensor, RowRange wanted,
                                              const RowBytes& row_bytes) const;
};

/// State that is equal on all workers: the backbone, the state of its optimizer, the history of
/// updates, the state of the loss, and the neighbours of the classes.
struct SharedState {
  std::array<std::vector<std::byte>, kSharedTensors> tensors;  ///< copies of shared_tensors()
  std::vector<PastUpdate> updates;
  std::int64_t batches_tracked = 0;
  LossScale::State loss_scale;
  LossState loss_state;
  ClassNeighbours neighbours = {};  ///< empty if the job has none
};

struct Snapshot {
  SnapshotId id;
  SnapshotRows own, copy;
  SharedState shared;
  std::vector<int> threads;  ///< compute threads of each worker, by rank
  /// Set when the part is complete. An abort can leave a snapshot incomplete.
  bool has_own = false, has_copy = false, has_shared = false;

  /// Returns the rows of this rank of the snapshot's world; nullptr if this worker does not have
  /// them.
  [[nodiscard]] const SnapshotRows* rows_of(Rank rank) const;
  [[nodiscard]] std::size_t bytes() const;  ///< memory used
};

/// Returns the bytes of one row in each of the state's tables.
RowBytes row_bytes(const TrainingState& state);

/// Copies this worker's state, and allocates memory for the rows of rank `copy_of` (-1: none).
/// Reuses the memory of an earlier snapshot of the same size. Sets has_own. Sets has_shared only on
/// rank 0, because the other workers still need rank 0's running statistics.
void copy_state(const TrainingState& state, const SnapshotId& id, Rank rank, Rank copy_of,
                Snapshot& snapshot);

/// Restores the shared state.
void restore_shared(const SharedState& shared, const TrainingState& state);
/// Restores rows of one tensor of this worker's shard. REQUIRES: the rows are in the shard.
void restore_rows(std::size_t tensor, RowRange rows, std::span<const std::byte> bytes,
                  const TrainingState& state);

/// Resizes a vector without excess capacity. Existing values are lost.
template <typename T>
void fit(std::vector<T>& values, std::size_t size) {
  if (values.size() == size) return;
  std::vector<T>().swap(values);
  values.resize(size);
}

}  // namespace pfc
