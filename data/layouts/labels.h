// Labels of data sets that store them as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace pfc {

/// Maximum number of classes of a data set.
inline constexpr std::int64_t kMaxClasses = std::int64_t{1} << 40;

/// Parses "17", or "17.000000" of im2rec. Returns -1 if it is not an integer of 0 .. 2^40 - 1.
std::int64_t parse_label(std::string_view text);

/// Parses one label, or several separated by commas. Returns them in descending order, because
/// count_classes() needs the largest. Returns nothing if a label is repeated, has a leading 0 after
/// a comma, or is not an integer of 0 .. 2^40 - 1.
std::vector<std::int64_t> parse_labels(std::string_view text);

/// Throws InputError that names `origin` if options.num_image is given and differs.
void check_image_count(std::int64_t images, const DatasetOptions& options,
                       const std::string& origin, const char* what = "images");

/// Returns the number of classes: options.num_classes if given, otherwise the largest label + 1.
/// Checks options.num_image. Throws InputError that names `origin` if one of these options does not
/// match the labels, or if there are no labels.
std::int64_t count_classes(const std::vector<std::int64_t>& labels, const DatasetOptions& options,
                           const std::string& origin);

/// Adds a warning if there are more classes than images, or if no image has label 0, as in a list
/// whose labels start at 1. `least`: smallest label.
void warn_of_classes(DatasetInfo& info, std::int64_t least, const std::string& origin);

}  // namespace pfc
