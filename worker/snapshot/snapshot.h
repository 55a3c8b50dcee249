// A copy in host memory of what one worker needs to go on: its own rows of class centres, those of
// another worker, and what all workers have alike. A job that goes on after a failure takes the
// rows of a lost worker from the one that keeps their copy, without the disk.
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

/// Which state a snapshot is of. All workers take it after the same step. The newer one of two is
/// the larger: trained with more images, or with as many in a later generation.
struct SnapshotId {
  TrainedSoFar trained;  ///< with 0 images: there is no snapshot
  Generation generation = 0;
  std::int64_t world_size = 0;
  friend auto operator<=>(const SnapshotId&, const SnapshotId&) = default;
};

/// Centres, momentum, AdamW's second moment (empty for SGD), and the number of updates that a row
/// has seen, of a table's rows; as the device has them, so that nothing is rounded.
inline constexpr std::size_t kRowTensors = 4;
using RowTensors = std::array<std::vector<std::byte>, kRowTensors>;
using RowBytes = std::array<std::size_t, kRowTensors>;  ///< of one row in each

/// The rows of one worker.
struct SnapshotRows {
  Rank rank = -1;  ///< in the generation that took the snapshot; -1: none
  RowRange rows;
  RowTensors tensors;

  /// Rows of a tensor. REQUIRES: wanted lies in `rows`.
  [[nodiscard]] std::span<const std::byte> of(std::size_t tensor, RowRange wanted,
                                              const RowBytes& row_bytes) const;
};

/// What all workers have alike: the backbone with its optimizer's state, and the history of
/// updates.
struct SharedState {
  /// Weights, running statistics, momentum, AdamW's second moment (empty for SGD).
  std::array<std::vector<std::byte>, 4> tensors;
  std::vector<PastUpdate> updates;
  std::int64_t batches_tracked = 0;
  LossScale::State loss_scale;
};
inline constexpr std::size_t kStatistics = 1;  ///< in SharedState::tensors: they are rank 0's

struct Snapshot {
  SnapshotId id;
  SnapshotRows own, copy;
  SharedState shared;
  std::vector<int> threads;  ///< compute threads of the workers, by rank
  /// Whether this worker has all of it: an abort may come in the middle.
  bool has_own = false, has_copy = false, has_shared = false;

  /// The rows of this rank of the snapshot's world; null where they are not here.
  [[nodiscard]] const SnapshotRows* rows_of(Rank rank) const;
  [[nodiscard]] std::size_t bytes() const;  ///< of memory
};

/// Bytes of one row of the state's tables.
RowBytes row_bytes(const TrainingState& state);
/// Views of the state's tensors, in the order of SharedState::tensors; the last is null for SGD.
std::array<Tensor, 4> shared_tensors(const TrainingState& state);

/// Copies this worker's state, and makes memory for the rows of `copy_of`; -1: there is none. The
/// memory of an earlier snapshot of the same size is used again. Sets has_own, and has_shared on
/// rank 0, whose running statistics count.
void copy_state(const TrainingState& state, const SnapshotId& id, Rank rank, Rank copy_of,
                Snapshot& snapshot);

/// Sets what all workers have alike.
void restore_shared(const SharedState& shared, const TrainingState& state);
/// Sets rows of one tensor of this worker's shard. REQUIRES: they are of its shard.
void restore_rows(std::size_t tensor, RowRange rows, std::span<const std::byte> bytes,
                  const TrainingState& state);

/// Makes a vector of this size with memory for no more than that. The values are not kept.
template <typename T>
void fit(std::vector<T>& values, std::size_t size) {
  if (values.size() == size) return;
  std::vector<T>().swap(values);
  values.resize(size);
}

}  // namespace pfc
