// Fills batches: finds, reads, decodes and augments their images.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/ids.h"
#include "worker/data/augment/augmenter.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/data/global_order.h"
#include "worker/data/images/decode.h"
#include "worker/trace/recorder.h"

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

/// Everything that batches are made from. Constant after construction; all threads share it.
struct BatchSource {
  const Dataset& dataset;
  BatchPlan plan;
  GlobalOrder order;
  std::uint64_t seed = 0;
  Augmentation augmentation = {};
  std::int64_t allowed_damage = 0;  ///< damaged images a worker may meet in one epoch
};

/// Belongs to one thread. Owns its decoder and buffers; the source is borrowed.
class BatchFiller {
 public:
  /// What it does is recorded on the row `track` of a trace.
  explicit BatchFiller(const BatchSource& source, const TraceTrack& track = {})
      : source_(source), track_(track), augmenter_(source.augmentation, source.seed) {}

  /// Fills size, images, labels, index and epoch of batch number `index`: a pure function of the
  /// source and the index. The next undamaged image of the epoch's order takes the place of a
  /// damaged one. Returns one message for each damaged image. When there are more than
  /// allowed_damage, it returns early and leaves the batch unfinished. Throws InputError for a bad
  /// label.
  std::vector<std::string> fill(std::int64_t index, Batch& batch);

 private:
  /// The place of one image or embedding in the batch.
  struct Place {
    std::int64_t epoch = 0;
    std::int64_t position = 0;  ///< of the epoch
    std::span<std::uint8_t> rgb;
    std::int64_t& label;
    std::int64_t batch = 0;  ///< its number
  };
  /// Puts the image at `position` of the epoch's order there. Returns what is wrong with it where
  /// it is damaged.
  std::optional<std::string> show(const Place& place, std::int64_t position);
  void show_stand_in(const Place& place, const std::string& damage);

  const BatchSource& source_;
  const TraceTrack track_;
  ImageDecoder decoder_;
  Augmenter augmenter_;
  std::vector<std::byte> storage_;
};

}  // namespace pfc
