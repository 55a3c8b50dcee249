// Fills one batch: finds, reads, decodes and flips its images.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/data/batch.h"
#include "worker/data/batch_plan.h"
#include "worker/data/dataset.h"
#include "worker/data/decode.h"
#include "worker/data/global_order.h"

namespace pfc {

/// What a batch is made from. Constant after construction, shared by all threads.
struct BatchSource {
  const Dataset& dataset;
  BatchPlan plan;
  GlobalOrder order;
  std::uint64_t seed = 0;
  bool augment = true;
  std::int64_t allowed_damage = 0;  ///< damaged images a worker may meet in one epoch
};

/// One thread's decoder and buffers.
class BatchFiller {
 public:
  explicit BatchFiller(const BatchSource& source) : source_(source) {}

  /// Fills size, images, labels, index and epoch of batch number `index`, a pure function of the
  /// source and the index. Returns what was wrong with each damaged image; the next whole one in
  /// the epoch's order stands in its place. Stops early, the batch unfinished, once there are more
  /// than allowed_damage. Throws InputError for a bad label.
  std::vector<std::string> fill(std::int64_t index, Batch& batch);

 private:
  /// Where an image goes.
  struct Place {
    std::int64_t epoch = 0;
    std::int64_t position = 0;  ///< of the epoch
    std::span<std::uint8_t> rgb;
    std::int64_t& label;
  };
  /// Puts the image at `position` of the epoch's order there, or says what is wrong with it.
  std::optional<std::string> show(const Place& place, std::int64_t position);
  void show_stand_in(const Place& place, const std::string& damage);

  const BatchSource& source_;
  ImageDecoder decoder_;
  std::vector<std::byte> storage_;
};

}  // namespace pfc
