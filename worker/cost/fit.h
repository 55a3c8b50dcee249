// Least squares with non-negative coefficients.
#pragma once

#include <vector>

namespace pfc {

/// A measured time, and the quantities that contribute to it.
struct Measured {
  std::vector<double> features;
  double seconds = 0;  ///< must be positive
};

/// Returns the x >= 0 that minimizes the sum of ((features . x - seconds) / seconds)^2, the
/// squared relative errors. Tries every set of non-zero coefficients: exact, and fast for the up
/// to four coefficients of a cost. REQUIRES: all have the same number of features, from 1 to 8.
std::vector<double> fit(const std::vector<Measured>& measured);

/// Returns that sum.
double squared_error(const std::vector<Measured>& measured, const std::vector<double>& x);

}  // namespace pfc
