// Thresholds on cosines, set from the distributions of a data set.
#pragma once

#include <vector>

#include "pfcctl/data/clean/labelled_embeddings.h"

namespace pfc {

/// Number of identities with three images below which thresholds would be guesses.
inline constexpr std::size_t kFewestSamples = 30;

/// Smallest cosine of near-duplicates. Sufficient if their pixels are compared too.
inline constexpr double kLeastDuplicate = 0.95;

/// A standard deviation is here the distance from the median to the 16 % or the 84 % quantile,
/// whichever errors in the labels change less.
struct CleaningThresholds {
  /// Smallest mean cosine of images of one person. Lies between the median cosines of images of one
  /// identity and of two, at the same number of standard deviations from each.
  double same = 0;
  /// Smallest cosine of two centres of one person. Above the cosines of most centres with their
  /// nearest other one: median + 4 (median - 16 % quantile), which about 1 % of the people exceed
  /// if these cosines have the distribution of a maximum (Gumbel's).
  double nearest = 1;
  /// Smallest cosine of near-duplicates: at least kLeastDuplicate, and at least cos(m / exp(6 s)),
  /// where m is the median angle between images of one identity, and s the distance from the 16 %
  /// quantile to the median of the angles' logarithms.
  double duplicate = 1;
};

/// Returns `same` and `duplicate`, from at most 20,000 identities that are not in the test set.
/// Throws InputError if fewer than kFewestSamples have three images.
CleaningThresholds image_thresholds(const LabelledEmbeddings& set, int threads);

/// cosines: of each centre with the nearest other centre of the same set. REQUIRES: not empty.
double nearest_threshold(const std::vector<double>& cosines);

}  // namespace pfc
