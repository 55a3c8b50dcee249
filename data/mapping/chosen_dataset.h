// Selects a part of a data set.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.h"

namespace pfc {

struct Choice {
  std::vector<std::int64_t> images;  ///< image numbers in the whole set, in the order of the part
  /// Label in the whole set for each label of the part, ascending. Empty: labels do not change.
  std::vector<std::int64_t> classes;
};

/// Returns the chosen images as a data set. `whole` is borrowed. REQUIRES: if classes are chosen,
/// each chosen image belongs to one of them.
std::unique_ptr<Dataset> choose(const Dataset& whole, Choice choice);

}  // namespace pfc
