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
  /// Smallest cosine of two centres of one person: nearest_threshold() of the centres.
  double nearest = 1;
  /// Smallest cosine of an image with the centre of the identity to which it belongs:
  /// nearest_threshold() of images that agree with their identity.
  double belongs = 1;
  /// Smallest cosine of near-duplicates: at least kLeastDuplicate, and at least cos(m / exp(6 s)),
  /// where m is the median angle between images of one identity, and s the distance from the 16 %
  /// quantile to the median of the angles' logarithms.
  double duplicate = 1;
};

/// Returns `same` and `duplicate`, from at most 20,000 identities that are not in the test set.
/// Throws InputError if fewer than kFewestSamples have three images.
CleaningThresholds image_thresholds(const LabelledEmbeddings& set, int threads);

/// Returns a cosine that about 5 % of the centres (or images) exceed with the nearest centre of
/// another person. `second`: the cosine of each with the second nearest one, because the nearest
/// one may be of the same person. REQUIRES: not empty.
///
/// Model: the number of other people's centres within an angle t of a centre (or image) has a
/// Poisson distribution with mean (t / u)^k; u and k come from the median and the 84 % quantile of
/// the second smallest angle.
double nearest_threshold(const std::vector<double>& second);

}  // namespace pfc
