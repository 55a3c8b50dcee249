// A micro-batch: the output of the data pipeline and input of a training step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pfc {

/// A micro-batch of one worker. Owns its memory, which the prefetcher reuses after recycle().
struct Batch {
  std::int64_t size = 0;  ///< B, always the configured batch size
  /// [B, height, width, 3] RGB, augmented; for embeddings, the bytes of [B, D] float32.
  std::vector<std::uint8_t> images;
  std::vector<std::int64_t> labels;  ///< [B, labels_per_image], padded with -1
  std::int64_t index = 0;            ///< micro-batch number since the start of the job, from 0
  std::int64_t epoch = 0;            ///< from 0
  std::int64_t skipped_images = 0;   ///< damaged images of this worker so far in this epoch
  double wait_seconds = 0;           ///< time that Prefetcher::next() waited for this batch
  double fill_seconds = 0;           ///< time that a thread spent reading and decoding it

  /// Allocates room for `images_in_batch` images or embeddings of `image_bytes` each.
  void resize(std::int64_t images_in_batch, std::size_t image_bytes,
              std::int64_t labels_per_image = 1) {
    size = images_in_batch;
    images.resize(static_cast<std::size_t>(size) * image_bytes);
    labels.resize(static_cast<std::size_t>(size * labels_per_image));
  }
  /// Returns the bytes that resize() allocates.
  [[nodiscard]] static std::size_t bytes(std::int64_t images_in_batch, std::size_t image_bytes,
                                         std::int64_t labels_per_image = 1) {
    return static_cast<std::size_t>(images_in_batch) *
           (image_bytes + static_cast<std::size_t>(labels_per_image) * sizeof(std::int64_t));
  }
};

}  // namespace pfc
