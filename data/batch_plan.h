// Which worker fills which positions of an epoch into which batch.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

#include "common/ids.h"

namespace pfc {

/// A place in the order of images.
struct DataPlace {
  std::int64_t epoch = 0;
  std::int64_t position = 0;  ///< in the epoch's order
  friend auto operator<=>(const DataPlace&, const DataPlace&) = default;
};

/// Micro-batches follow each other from `start` on, each W * B neighbouring positions of an epoch:
/// worker r has those from r * B on. The images that do not fill a micro-batch at the end of an
/// epoch are left out.
struct BatchPlan {
  std::int64_t images = 0;
  std::int64_t batch_size = 0;
  Rank rank = 0;
  int world_size = 1;
  /// Position of micro-batch `first_batch`; may lie anywhere in an epoch after W changed.
  DataPlace start = {};
  std::int64_t first_batch = 0;

  [[nodiscard]] std::int64_t global_batch() const { return batch_size * world_size; }
  [[nodiscard]] std::int64_t batches_per_epoch() const { return images / global_batch(); }
  /// Where a micro-batch of all workers begins. REQUIRES: batch >= first_batch.
  [[nodiscard]] DataPlace place_of(std::int64_t batch) const {
    const std::int64_t number = batch - first_batch;
    const std::int64_t rest = std::max<std::int64_t>(images - start.position, 0) / global_batch();
    if (number < rest) return {start.epoch, start.position + number * global_batch()};
    const std::int64_t later = number - rest;
    return {start.epoch + 1 + later / batches_per_epoch(),
            later % batches_per_epoch() * global_batch()};
  }
  [[nodiscard]] std::int64_t epoch_of(std::int64_t batch) const { return place_of(batch).epoch; }
  /// The position in its epoch of this worker's first image of a batch.
  [[nodiscard]] std::int64_t first_position(std::int64_t batch) const {
    return place_of(batch).position + rank * batch_size;
  }
  /// Micro-batches from `batch` to the end of its epoch, inclusive.
  [[nodiscard]] std::int64_t batches_to_end_of_epoch(std::int64_t batch) const {
    return (images - place_of(batch).position) / global_batch();
  }
  /// Positions of a whole epoch.
  [[nodiscard]] std::int64_t epoch_positions() const { return images - images % global_batch(); }
};

}  // namespace pfc
