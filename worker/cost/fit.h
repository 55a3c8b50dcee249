// Least squares with coefficients that cannot be negative.
#pragma once

#include <vector>

namespace pfc {

/// One measured time, and the quantities that it is a sum of.
struct Measured {
  std::vector<double> features;
  double seconds = 0;  ///< above 0
};

/// The x >= 0 with the least sum of ((features . x - seconds) / seconds)^2, so that each time
/// counts by its relative error. Tries every set of coefficients that are not zero: exact, and
/// quick for the four that a cost has. REQUIRES: all have as many features, from 1 to 8.
std::vector<double> fit(const std::vector<Measured>& measured);

/// That sum.
double squared_error(const std::vector<Measured>& measured, const std::vector<double>& x);

}  // namespace pfc
