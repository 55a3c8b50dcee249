#include "data/prefetch/batch_filler.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "data/damaged_image.h"

namespace pfc {

std::vector<std::string> BatchFiller::fill(std::int64_t index, Batch& batch) {
  batch.index = index;
  batch.epoch = source_.plan.epoch_of(index);
  const DatasetInfo& info = source_.dataset.info();
  batch.resize(source_.plan.batch_size, info.sample_bytes(), info.labels_per_image);
  if (source_.reads == nullptr) return fill_places(batch);
  {
    const TraceTrack::Scope scope(track_, "wait_for_read", index);
    unit_ = source_.reads->take(index);
  }
  const auto give_back = [&](ReadAhead* reads) {
    unit_ = nullptr;
    reads->give_back(index);
  };
  const std::unique_ptr<ReadAhead, decltype(give_back)> held(source_.reads, give_back);
  if (unit_ == nullptr) return {};  // stopped: this batch is not needed
  return fill_places(batch);
}

std::vector<std::string> BatchFiller::fill_places(Batch& batch) {
  const DatasetInfo& info = source_.dataset.info();
  const std::size_t image_bytes = info.sample_bytes();
  const auto labels = static_cast<std::size_t>(info.labels_per_image);
  const std::int64_t index = batch.index;
  std::vector<std::string> damaged;
  for (std::int64_t i = 0; i < batch.size; ++i) {
    const auto slot = static_cast<std::size_t>(i);
    const Place place{batch.epoch, source_.plan.first_position(index) + i,
                      std::span(batch.images).subspan(slot * image_bytes, image_bytes),
                      std::span(batch.labels).subspan(slot * labels, labels), index};
    if (const auto damage = show(place, place.position)) {
      damaged.push_back(*damage);
      if (static_cast<std::int64_t>(damaged.size()) > source_.allowed_damage) return damaged;
      show_stand_in(place, *damage);
    }
    if (info.embedding_size > 0) continue;
    const TraceTrack::Scope scope(track_, "augment", index);
    augmenter_.augment(place.epoch, place.position, {place.rgb, {info.height, info.width}});
  }
  return damaged;
}

void BatchFiller::show_stand_in(const Place& place, const std::string& damage) {
  const std::int64_t images = source_.dataset.info().images;
  // A longer run of damaged images would exceed what all workers together are allowed.
  const std::int64_t tries =
      std::min(images - 1, (source_.allowed_damage + 1) * source_.plan.world_size);
  for (std::int64_t i = 1; i <= tries; ++i) {
    // If the replacement is damaged too, the worker that has its position reports and counts it.
    if (!show(place, (place.position + i) % images)) return;
  }
  throw InputError(
      fmt::format("{}; the {} images after it in the order of epoch {} are damaged too", damage,
                  tries, place.epoch));
}

std::optional<std::string> BatchFiller::show(const Place& place, std::int64_t position) {
  const DatasetInfo& info = source_.dataset.info();
  const std::int64_t image = source_.order.at(place.epoch, position);
  Sample sample;
  try {
    const TraceTrack::Scope scope(track_, "read", place.batch);
    sample = source_.dataset.read(
        image, storage_, unit_ != nullptr ? unit_->find(image) : std::span<const std::byte>());
  } catch (const DamagedImage& e) {
    return e.what();  // includes the name of the record
  }
  place.labels[0] = sample.label;
  if (place.labels.size() > 1) source_.dataset.other_labels(image, place.labels.subspan(1));
  if (info.embedding_size > 0) {
    std::memcpy(place.rgb.data(), sample.encoded.data(), place.rgb.size());
    return std::nullopt;
  }
  try {
    const TraceTrack::Scope scope(track_, "decode", place.batch);
    augmenter_.decode(decoder_, sample.encoded, place.epoch, place.position,
                      {place.rgb, {info.height, info.width}});
  } catch (const DamagedImage& e) {
    return source_.dataset.name(image) + ": " + e.what();
  }
  return std::nullopt;
}

}  // namespace pfc
