// Assigns the positions of an epoch to batches and workers.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

#include "common/ids.h"

namespace pfc {

/// A position in the order of images.
struct DataPlace {
  std::int64_t epoch = 0;
  std::int64_t position = 0;  ///< in the epoch's order
  friend auto operator<=>(const DataPlace&, const DataPlace&) = default;
};

/// With W workers and batch size B, a micro-batch has W * B consecutive positions of an epoch.
/// Worker r uses B of them, from number r * B on. Images at the end of an epoch that do not fill a
/// micro-batch are skipped.
struct BatchPlan {
  std::int64_t images = 0;
  std::int64_t batch_size = 0;
  Rank rank = 0;
  int world_size = 1;
  /// The position of micro-batch `first_batch`. It may be any position of an epoch if W has
  /// changed.
  DataPlace start = {};
  std::int64_t first_batch = 0;

  [[nodiscard]] std::int64_t global_batch() const { return batch_size * world_size; }
  [[nodiscard]] std::int64_t batches_per_epoch() const { return images / global_batch(); }
  /// Returns the start of a micro-batch of all workers. REQUIRES: batch >= first_batch.
  [[nodiscard]] DataPlace place_of(std::int64_t batch) const {
    const std::int64_t number = batch - first_batch;
    const std::int64_t rest = std::max<std::int64_t>(images - start.position, 0) / global_batch();
    if (number < rest) return {start.epoch, start.position + number * global_batch()};
    const std::int64_t later = number - rest;
    return {start.epoch + 1 + later / batches_per_epoch(),
            later % batches_per_epoch() * global_batch()};
  }
  [[nodiscard]] std::int64_t epoch_of(std::int64_t batch) const { return place_of(batch).epoch; }
  /// Returns the position in the epoch of this worker's first image of a batch.
  [[nodiscard]] std::int64_t first_position(std::int64_t batch) const {
    return place_of(batch).position + rank * batch_size;
  }
  /// Returns the number of micro-batches from `batch` to the end of its epoch, inclusive.
  [[nodiscard]] std::int64_t batches_to_end_of_epoch(std::int64_t batch) const {
    return (images - place_of(batch).position) / global_batch();
  }
  /// Returns the number of positions used in a whole epoch.
  [[nodiscard]] std::int64_t epoch_positions() const { return images - images % global_batch(); }
};

}  // namespace pfc
