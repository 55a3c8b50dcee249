// Which worker fills which positions of an epoch into which batch.
#pragma once

#include <cstdint>

#include "common/ids.h"

namespace pfc {

/// Which positions of the global order make up which batch: micro-batch i of worker r holds
/// positions (i * W + r) * B + 0 .. B - 1.
struct BatchPlan {
  std::int64_t images = 0;
  std::int64_t batch_size = 0;
  Rank rank = 0;
  int world_size = 1;

  [[nodiscard]] std::int64_t global_batch() const { return batch_size * world_size; }
  /// Positions of an epoch. The images that do not fill a global batch are left out.
  [[nodiscard]] std::int64_t epoch_positions() const { return images - images % global_batch(); }
  [[nodiscard]] std::int64_t batches_per_epoch() const { return images / global_batch(); }
  [[nodiscard]] std::int64_t epoch_of(std::int64_t batch) const {
    return batch / batches_per_epoch();
  }
  /// The position in its epoch of this worker's first image of a batch.
  [[nodiscard]] std::int64_t first_position(std::int64_t batch) const {
    return batch % batches_per_epoch() * global_batch() + rank * batch_size;
  }
};

}  // namespace pfc
