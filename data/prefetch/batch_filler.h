// Fills batches: finds, reads, decodes and augments the images.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/trace/recorder.h"
#include "data/augment/augmenter.h"
#include "data/batch_plan.h"
#include "data/dataset.h"
#include "data/images/decode.h"
#include "data/order/image_order.h"
#include "data/prefetch/batch.h"
#include "data/reading/read_ahead.h"

namespace pfc {

/// Inputs of all batches. Constant after construction; shared by all threads.
struct BatchSource {
  const Dataset& dataset;
  BatchPlan plan;
  const ImageOrder& order;
  std::uint64_t seed = 0;
  Augmentation augmentation = {};
  std::int64_t allowed_damage = 0;  ///< maximum number of damaged images per worker and epoch
  ReadAhead* reads = nullptr;       ///< not owned; nullptr: read each image when it is needed
};

/// Used by one thread. Owns its decoder and buffers; borrows the source.
class BatchFiller {
 public:
  /// Its work is recorded on the trace row `track`.
  explicit BatchFiller(const BatchSource& source, const TraceTrack& track = {})
      : source_(source), track_(track), augmenter_(source.augmentation, source.seed) {}

  /// Fills size, images, labels, index and epoch of batch number `index`: a pure function of the
  /// source and the index. Replaces a damaged image by the next undamaged one in the epoch's
  /// order. Returns one message per damaged image. If there are more than allowed_damage, or the
  /// read-ahead is stopped before it has the images, returns early with an unfinished batch.
  /// Throws InputError for an invalid label.
  std::vector<std::string> fill(std::int64_t index, Batch& batch);

 private:
  /// Destination of one image or embedding in the batch.
  struct Place {
    std::int64_t epoch = 0;
    std::int64_t position = 0;  ///< in the epoch
    std::span<std::uint8_t> rgb;
    std::span<std::int64_t> labels;  ///< [labels_per_image]
    std::int64_t batch = 0;          ///< number of the batch
  };
  /// Reads the image at `position` of the epoch into `place`. If it is damaged, returns why.
  std::optional<std::string> show(const Place& place, std::int64_t position);
  void show_stand_in(const Place& place, const std::string& damage);
  std::vector<std::string> fill_places(Batch& batch);

  const BatchSource& source_;
  const TraceTrack track_;
  ImageDecoder decoder_;
  Augmenter augmenter_;
  ImageBuffer storage_;
  const ReadAhead::Unit* unit_ = nullptr;  ///< for the current batch; nullptr: no read-ahead
};

}  // namespace pfc
