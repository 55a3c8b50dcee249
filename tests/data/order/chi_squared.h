#pragma once

#include <cmath>
#include <numeric>
#include <vector>

namespace pfc::testing {

/// Returns how far Pearson's chi-squared statistic of `counts` is above its mean, in standard
/// deviations. All counts have the same expected value.
inline double chi_squared_deviations(const std::vector<double>& counts) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  const double expected = total / static_cast<double>(counts.size());
  double statistic = 0;
  for (const double c : counts) statistic += (c - expected) * (c - expected) / expected;
  const double freedom = static_cast<double>(counts.size()) - 1;
  return (statistic - freedom) / std::sqrt(2 * freedom);
}

}  // namespace pfc::testing
