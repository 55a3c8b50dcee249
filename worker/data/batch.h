// What the data pipeline hands to a training step.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tensor.h"

namespace pfc {

/// One micro-batch of this worker. Owns its memory; recycled by the prefetcher.
struct Batch {
  std::int64_t size = 0;  ///< B, always the configured batch size
  std::vector<std::uint8_t>
      images;  ///< [B, height, width, 3] RGB, flipped where augmentation says so
  std::vector<std::int64_t> labels;  ///< [B]
  std::int64_t index = 0;            ///< micro-batch number since the start of the job, from 0
  std::int64_t epoch = 0;
  std::int64_t skipped_images = 0;  ///< damaged images so far in this epoch, of this worker
  double wait_seconds = 0;          ///< how long next() waited for it
};

}  // namespace pfc
