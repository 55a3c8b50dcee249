// In which order a job reads its data, and how much of them it keeps in memory for that.
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
  /// Sequential: of images as stored, which all workers of the job keep in memory together.
  std::uint64_t buffer_bytes = std::uint64_t{1} << 30;
};

inline ReadOptions read_options(const JobConfig& job) {
  return {.kind = job.read, .buffer_bytes = static_cast<std::uint64_t>(job.read_buffer_mib) << 20};
}

/// Mean bytes of an image in its file; nothing where images do not lie one behind the other in the
/// order of their numbers (Dataset::stretch()).
std::optional<double> stored_bytes_of_image(const Dataset& dataset);

/// Throws InputError that says why where the data cannot be read sequentially, and what to do.
void check_sequential(const Dataset& dataset);

/// How many images a window of sequential reading has. Throws InputError where the buffer is too
/// small for two global batches. `image_bytes` is stored_bytes_of_image().
std::int64_t window_images(const ReadOptions& options, std::int64_t images, double image_bytes,
                           std::int64_t global_batch);

/// The order for a global batch. A window takes somewhat less than half of the buffer, because the
/// next one is read meanwhile. Throws InputError as check_sequential() and window_images()
/// do.
std::unique_ptr<SequentialOrder> make_sequential_order(const Dataset& dataset,
                                                       const ReadOptions& options,
                                                       std::int64_t global_batch,
                                                       std::uint64_t seed, bool shuffle);

/// What a person should know who reads these data sequentially: that the file is sorted by class,
/// so that the images of a window are of few classes. Reads some labels.
std::optional<std::string> sequential_warning(const Dataset& dataset);

}  // namespace pfc
