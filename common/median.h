// Computes a median.
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

namespace pfc {

/// Returns the median: of two middle values, the larger one. Returns 0 if there are no values.
inline double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace pfc
