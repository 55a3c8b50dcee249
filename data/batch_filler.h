// Fills batches: finds, reads, decodes and augments their images.
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
#include "data/batch.h"
#include "data/batch_plan.h"
#include "data/dataset.h"
#include "data/images/decode.h"
#include "data/order/image_order.h"
#include "data/reading/read_ahead.h"

namespace pfc {

/// Everything that batches are made from. Constant after construction; all threads share it.
struct BatchSource {
  const Dataset& dataset;
  BatchPlan plan;
  const ImageOrder& order;
  std::uint64_t seed = 0;
  Augmentation augmentation = {};
  std::int64_t allowed_damage = 0;  ///< damaged images a worker may meet in one epoch
  ReadAhead* reads = nullptr;       ///< borrowed; null: each image is read when its turn comes
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
  /// allowed_damage, and when the read-ahead is stopped before it has the images, it returns early
  /// and leaves the batch unfinished. Throws InputError for a bad label.
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
  std::vector<std::string> fill_places(Batch& batch);
  Sample read(std::int64_t image);

  const BatchSource& source_;
  const TraceTrack track_;
  ImageDecoder decoder_;
  Augmenter augmenter_;
  std::vector<std::byte> storage_;
  const ReadAhead::Unit* unit_ = nullptr;  ///< of the batch that is filled; null: not read ahead
};

}  // namespace pfc
