// Builds the summaries of events, in formats that every version of TensorBoard reads.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensorboard/compat/proto/summary.pb.h"
#include "worker/tensorboard/histogram.h"

namespace pfc {

/// Returns the tag GROUP/NAME; TensorBoard groups tags by the text before the first slash.
/// Replaces all bytes except a-z A-Z 0-9 _ . - by "_", and also slashes in `name`, because strings
/// of a message must be UTF-8 and a file name need not be.
std::string tag_of(std::string_view group, std::string_view name);

/// Adds a number as `simple_value`, which TensorBoard and readers without tensor support accept.
void add_scalar(tensorboard::Summary& summary, const std::string& tag, double value);

/// Adds a tensor [k, 3] of float64: left, right and count of each bucket.
void add_histogram(tensorboard::Summary& summary, const std::string& tag,
                   std::span<const HistogramBucket> buckets);

/// Adds a tensor [2 + k] of strings: width, height, and k images of this size as JPEG or PNG
/// files.
void add_images(tensorboard::Summary& summary, const std::string& tag, int width, int height,
                std::span<const std::vector<std::byte>> files);

}  // namespace pfc
