// What one event shows, in the forms that every TensorBoard reads as they are.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensorboard/compat/proto/summary.pb.h"
#include "worker/tensorboard/histogram.h"

namespace pfc {

/// A tag from names, which TensorBoard groups by what precedes the first slash. Any other byte than
/// those of a-z A-Z 0-9 _ . - becomes "_", and so does a slash in `name`: a message's strings are
/// UTF-8, and a file's name need not be.
std::string tag_of(std::string_view group, std::string_view name);

/// A number as `simple_value`: TensorBoard, and readers that know no tensors, take it.
void add_scalar(tensorboard::Summary& summary, const std::string& tag, double value);

/// A tensor [k, 3] of float64: left, right and count of each bucket.
void add_histogram(tensorboard::Summary& summary, const std::string& tag,
                   std::span<const HistogramBucket> buckets);

/// A tensor [2 + k] of strings: width, height, and the files of images of that size, JPEG or PNG.
void add_images(tensorboard::Summary& summary, const std::string& tag, int width, int height,
                std::span<const std::vector<std::byte>> files);

}  // namespace pfc
