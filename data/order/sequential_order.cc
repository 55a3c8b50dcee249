#include "data/order/sequential_order.h"

#include <algorithm>

#include "common/error.h"
#include "data/order/keyed_permutation.h"
#include "kernels/math/philox.h"

namespace pfc {

namespace {

// Counters of Stream::kShuffle. GlobalOrder uses those without the highest bit.
constexpr std::uint64_t kLanes = std::uint64_t{1} << 63;
constexpr std::uint64_t kCut = ~std::uint64_t{0};

std::uint64_t random_word(std::uint64_t seed, std::int64_t epoch, std::uint64_t what) {
  const Philox4 words =
      random_words(seed, Stream::kShuffle, static_cast<std::uint32_t>(epoch), what);
  return std::uint64_t{words.x[0]} << 32 | words.x[1];
}

}  // namespace

SequentialOrder::Cuts SequentialOrder::cut_epoch(std::int64_t images,
                                                 const SequentialOptions& options) {
  const std::int64_t batch = options.global_batch;
  check(batch > 0 && images >= batch && options.window_images >= batch,
        "SequentialOrder: fewer images than a global batch");
  const std::int64_t rows = images / batch;
  const std::int64_t most = std::min(rows, options.window_images / batch);
  // Make all windows about equally long, so that the last one is not much shorter.
  const std::int64_t windows = (rows + most - 1) / most;
  const std::int64_t of_window = (rows + windows - 1) / windows;
  return {.rows = of_window, .full_windows = rows / of_window, .short_rows = rows % of_window};
}

SequentialOrder::SequentialOrder(const std::vector<std::int64_t>& sets,
                                 const SequentialOptions& options)
    : sequence_(sets),
      images_(sequence_.images()),
      batch_(options.global_batch),
      seed_(options.seed),
      shuffle_(options.shuffle),
      cuts_(cut_epoch(images_, options)),
      window_order_(cuts_.full_windows, options.seed, options.shuffle) {}

std::int64_t SequentialOrder::cut(std::int64_t epoch) const {
  if (!shuffle_) return 0;
  return static_cast<std::int64_t>(random_word(seed_, epoch, kCut) %
                                   static_cast<std::uint64_t>(images_));
}

SequentialOrder::Window SequentialOrder::window(std::int64_t epoch, std::int64_t slot) const {
  const bool full = slot < cuts_.full_windows;
  const std::int64_t id = full ? window_order_.at(epoch, slot) : slot;
  return {
      .id = id, .begin = id * cuts_.rows * batch_, .rows = full ? cuts_.rows : cuts_.short_rows};
}

std::int64_t SequentialOrder::at(std::int64_t epoch, std::int64_t position) const {
  check(position >= 0 && position < images_, "SequentialOrder: position outside the epoch");
  std::int64_t place = position;
  const std::int64_t row = position / batch_;
  if (shuffle_ && row < images_ / batch_) {
    const Window w = window(epoch, window_of(row));
    const std::int64_t lane = position % batch_;
    const std::uint64_t key =
        random_word(seed_, epoch, kLanes | static_cast<std::uint64_t>(w.id * batch_ + lane));
    const auto neighbour = static_cast<std::int64_t>(permute_keyed(
        key, static_cast<std::uint64_t>(w.rows), static_cast<std::uint64_t>(row % cuts_.rows)));
    place = w.begin + lane * w.rows + neighbour;
  }
  return sequence_.at((cut(epoch) + place) % images_);
}

std::vector<ImageRange> SequentialOrder::images_of(std::int64_t epoch, std::int64_t slot,
                                                   const ImageRange& lanes) const {
  const Window w = window(epoch, slot);
  std::vector<ImageRange> found;
  if (shuffle_) {
    append(epoch, {w.begin + lanes.first * w.rows, w.begin + lanes.end * w.rows}, found);
  } else {
    for (std::int64_t row = 0; row < w.rows; ++row) {
      const std::int64_t begin = w.begin + row * batch_;
      append(epoch, {begin + lanes.first, begin + lanes.end}, found);
    }
  }
  std::ranges::sort(found, {}, &ImageRange::first);
  std::vector<ImageRange> joined;
  for (const ImageRange& range : found) {
    if (!joined.empty() && joined.back().end == range.first) {
      joined.back().end = range.end;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

/// If a range crosses the end of the ring, it is two ranges of the sequence.
void SequentialOrder::append(std::int64_t epoch, const ImageRange& of_ring,
                             std::vector<ImageRange>& to) const {
  const std::int64_t begin = (cut(epoch) + of_ring.first) % images_;
  const std::int64_t end = begin + of_ring.size();
  sequence_.append_ranges({begin, std::min(end, images_)}, to);
  if (end > images_) sequence_.append_ranges({0, end - images_}, to);
}

}  // namespace pfc
