// The labels of a data set whose layout has them as text: int64, one for each image.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace pfc {

/// The most classes that a data set may have.
inline constexpr std::int64_t kMaxClasses = std::int64_t{1} << 40;

/// "17", and "17.000000" as im2rec writes it. -1 where it is no integer of 0 .. 2^40 - 1.
std::int64_t parse_label(std::string_view text);

/// Throws InputError that names `origin` where options.num_image is given, and another number.
/// `what`: what is counted.
void check_image_count(std::int64_t images, const DatasetOptions& options,
                       const std::string& origin, const char* what = "images");

/// The number of classes: options.num_classes where it is given, otherwise the greatest label and
/// one. Checks options.num_image. Throws InputError that names `origin` where they do not fit the
/// labels, and where there are none.
std::int64_t count_classes(const std::vector<std::int64_t>& labels, const DatasetOptions& options,
                           const std::string& origin);

/// Adds a warning if there are more classes than images, or if no image has label 0, as in a list
/// whose labels begin at 1. `least`: the smallest label.
void warn_of_classes(DatasetInfo& info, std::int64_t least, const std::string& origin);

}  // namespace pfc
