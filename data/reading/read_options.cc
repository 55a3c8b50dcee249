#include "data/reading/read_options.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "common/byte_size.h"
#include "common/counted.h"
#include "common/error.h"

namespace pfc {

namespace {

// Images differ in size, so some windows are larger than average.
constexpr double kFill = 7.0 / 8;

std::vector<std::int64_t> images_of_sets(const DatasetInfo& info) {
  return info.part_images.empty() ? std::vector{info.images} : info.part_images;
}

/// Returns how often two images at this `distance` have the same label: a fraction, from a sample
/// of the images.
double same_label(const Dataset& dataset, std::int64_t distance) {
  constexpr std::int64_t kPairs = 128;
  const std::int64_t images = dataset.info().images;
  ImageBuffer storage;
  std::int64_t same = 0, pairs = 0;
  for (std::int64_t i = 0; i < kPairs; ++i) {
    const std::int64_t image = i * images / kPairs;
    try {
      same += dataset.label(image, storage) == dataset.label((image + distance) % images, storage);
      ++pairs;
    } catch (const InputError&) {  // NOLINT(bugprone-empty-catch): reported in training
    }
  }
  return pairs == 0 ? 0 : static_cast<double>(same) / static_cast<double>(pairs);
}

}  // namespace

std::optional<double> stored_bytes_of_image(const Dataset& dataset) {
  const DatasetInfo& info = dataset.info();
  if (info.images_in_order < info.images) return std::nullopt;
  return static_cast<double>(info.bytes_in_order) / static_cast<double>(info.images);
}

void check_sequential(const Dataset& dataset) {
  const std::int64_t in_order = dataset.info().images_in_order;
  if (in_order == dataset.info().images) return;
  throw InputError(fmt::format(
      "read: \"sequential\" needs RecordIO whose .idx is in the order of its .rec and leaves out "
      "few records, but {} is not in such a file: write it with pfcctl data shuffle, or set "
      "\"random\"",
      dataset.name(in_order)));
}

std::int64_t window_images(const ReadOptions& options, std::int64_t images, double image_bytes,
                           std::int64_t global_batch) {
  const auto window = static_cast<std::int64_t>(static_cast<double>(options.buffer_bytes / 2) *
                                                kFill / image_bytes);
  // A window that holds the whole data set is always large enough.
  const std::int64_t least = std::min(2 * global_batch, images);
  if (window >= least) return window;
  throw InputError(fmt::format(
      "read_buffer_mib: {} hold windows of {}, but a window needs at least two global batches, "
      "of {} images each: raise it to {} or more",
      byte_size_text(options.buffer_bytes), counted(window, "image"), global_batch,
      static_cast<std::int64_t>(2 * static_cast<double>(least) * image_bytes / kFill) / 1048576 +
          1));
}

std::unique_ptr<SequentialOrder> make_sequential_order(const Dataset& dataset,
                                                       const ReadOptions& options,
                                                       std::int64_t global_batch,
                                                       std::uint64_t seed, bool shuffle) {
  check_sequential(dataset);
  const std::int64_t window =
      window_images(options, dataset.info().images, *stored_bytes_of_image(dataset), global_batch);
  return std::make_unique<SequentialOrder>(
      images_of_sets(dataset.info()),
      SequentialOptions{
          .global_batch = global_batch, .window_images = window, .seed = seed, .shuffle = shuffle});
}

std::optional<std::string> sequential_warning(const Dataset& dataset) {
  const std::int64_t images = dataset.info().images;
  const double near = same_label(dataset, 1), far = same_label(dataset, images / 2);
  if (near < far + 0.25) return std::nullopt;
  return fmt::format(
      "read: \"sequential\" mixes only the images in its buffer, but the data from {} on are "
      "sorted by class: {:.0f} % of the images have the class of the next image. Shuffle them "
      "once: pfcctl data shuffle",
      dataset.name(0), 100 * near);
}

}  // namespace pfc
