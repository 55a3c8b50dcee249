// Thresholds on cosines, set from the distributions of a data set.
#pragma once

#include <vector>

#include "pfcctl/data/clean/labelled_embeddings.h"

namespace pfc {

/// Number of identities with three images below which thresholds would be guesses.
inline constexpr std::size_t kFewestSamples = 30;

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
  /// One image twice: at least 0.95. The angle is also below those of images of one identity:
  /// median / exp(6 s), where s is the distance from the 16 % quantile to the median of the angles'
  /// logarithms.
  double duplicate = 1;
};

/// Returns `same` and `duplicate`, from at most 20,000 identities. Throws InputError if fewer than
/// kFewestSamples have three images.
CleaningThresholds image_thresholds(const LabelledEmbeddings& set, int threads);

/// cosines: of each centre with the nearest other centre of the same set. REQUIRES: not empty.
double nearest_threshold(const std::vector<double>& cosines);

}  // namespace pfc
