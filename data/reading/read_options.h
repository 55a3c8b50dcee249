// The order in which a job reads its data, and the memory used for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/config/config.h"
#include "data/dataset.h"
#include "data/order/sequential_order.h"

namespace pfc {

struct ReadOptions {
  ReadKind kind = ReadKind::kRandom;
  /// Sequential only: memory for stored images, over all workers of the job.
  std::uint64_t buffer_bytes = std::uint64_t{1} << 30;
  bool balance_classes = false;  ///< only for random order (order/balanced_order.h)
};

inline ReadOptions read_options(const JobConfig& job) {
  return {.kind = job.read,
          .buffer_bytes = static_cast<std::uint64_t>(job.read_buffer_mib) << 20,
          .balance_classes = job.balance_classes};
}

/// Returns the mean bytes of an image in its file; nullopt if the data set is not read ahead
/// (DatasetInfo::images_in_order).
std::optional<double> stored_bytes_of_image(const Dataset& dataset);

/// Throws InputError if the data cannot be read sequentially. The error says why, and what to do.
void check_sequential(const Dataset& dataset);

/// Returns the number of images in a window of sequential reading. Throws InputError if the buffer
/// is too small for two global batches. `image_bytes` is stored_bytes_of_image().
std::int64_t window_images(const ReadOptions& options, std::int64_t images, double image_bytes,
                           std::int64_t global_batch);

/// Returns the order for a global batch. A window uses slightly less than half of the buffer,
/// because the next one is read meanwhile. Throws InputError like check_sequential() and
/// window_images().
std::unique_ptr<SequentialOrder> make_sequential_order(const Dataset& dataset,
                                                       const ReadOptions& options,
                                                       std::int64_t global_batch,
                                                       std::uint64_t seed, bool shuffle);

/// Returns a warning about reading these data sequentially: the file is sorted by class, so a
/// window contains few classes. Reads some labels.
std::optional<std::string> sequential_warning(const Dataset& dataset);

}  // namespace pfc
