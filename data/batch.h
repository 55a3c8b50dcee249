// One micro-batch: what the data pipeline gives to a training step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pfc {

/// One micro-batch of one worker. Owns its memory, which the prefetcher uses again after recycle().
struct Batch {
  std::int64_t size = 0;  ///< B, always the configured batch size
  /// [B, height, width, 3] RGB, augmented; or, of embeddings, the bytes of [B, D] float32.
  std::vector<std::uint8_t> images;
  std::vector<std::int64_t> labels;  ///< [B]
  std::int64_t index = 0;            ///< micro-batch number since the start of the job, from 0
  std::int64_t epoch = 0;            ///< from 0
  std::int64_t skipped_images = 0;   ///< damaged images of this worker in this epoch so far
  double wait_seconds = 0;           ///< how long Prefetcher::next() waited for this batch
  double fill_seconds = 0;           ///< how long a thread has read and decoded it

  /// Makes room for `images_in_batch` images or embeddings of `image_bytes` each.
  void resize(std::int64_t images_in_batch, std::size_t image_bytes) {
    size = images_in_batch;
    images.resize(static_cast<std::size_t>(size) * image_bytes);
    labels.resize(static_cast<std::size_t>(size));
  }
  /// Bytes that resize() takes.
  [[nodiscard]] static std::size_t bytes(std::int64_t images_in_batch, std::size_t image_bytes) {
    return static_cast<std::size_t>(images_in_batch) * (image_bytes + sizeof(std::int64_t));
  }
};

}  // namespace pfc
