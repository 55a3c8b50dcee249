// Thresholds on cosines, set from the distributions of a data set.
#pragma once

#include <vector>

namespace pfc {

/// Number of identities below which thresholds would be guesses.
inline constexpr int kFewestSamples = 30;

/// Least cosine of near duplicates.
inline constexpr double kLeastDuplicate = 0.95;

/// Medians and one-sided standard deviations are those of quantiles (50 % and 16 % or 84 %), on the
/// side that errors in the labels change less.
struct CleaningThresholds {
  /// Images of one person: as many standard deviations below the median cosine of images of one
  /// identity as above that of two.
  double same = 0;
  /// Centres of one person. Above the cosines of most centres with their nearest other one:
  /// median + 4 (median - 16 % quantile), which about 1 % of the people exceed if these cosines
  /// have the distribution of a maximum (Gumbel's).
  double nearest = 1;
  /// One image twice: at least kLeastDuplicate. The angle is also below those of images of one
  /// identity: median / exp(6 s), where s is the distance from the 16 % quantile to the median of
  /// the angles' logarithms.
  double duplicate = 1;
};

/// Returns the element at this part of the sorted values. REQUIRES: values is not empty.
double quantile_of(std::vector<double> values, double part);

/// genuine: cosines of images of one identity; impostor: of two. REQUIRES: neither is empty.
double same_person_threshold(const std::vector<double>& genuine,
                             const std::vector<double>& impostor);
double duplicate_threshold(const std::vector<double>& genuine);
/// nearest: the cosine of each centre with the nearest other centre. REQUIRES: not empty.
double nearest_threshold(const std::vector<double>& nearest);

}  // namespace pfc
