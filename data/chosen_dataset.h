// A part of a data set.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.h"

namespace pfc {

struct Choice {
  std::vector<std::int64_t> images;  ///< of the whole set, in the order of the part
  /// The label of the whole set for each label of the part, in rising order; empty: labels stay.
  std::vector<std::int64_t> classes;
};

/// The chosen images as a data set. `whole` is borrowed. REQUIRES: where classes are chosen, each
/// chosen image is of one of them.
std::unique_ptr<Dataset> choose(const Dataset& whole, Choice choice);

}  // namespace pfc
