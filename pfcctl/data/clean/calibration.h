// Estimates how probably findings are right, by planted errors.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "pfcctl/data/clean/planted_errors.h"

namespace pfc {

/// Sets the confidence of all findings in a set, by their kind and score. Identities with few
/// images and others are separate groups; a group with fewer than 30 right findings uses those of
/// both. Leaves the confidence unchanged if a kind has no right finding. The confidence does not
/// fall with a rising score. It is the product of:
/// - the fraction of right findings among `judged`, fitted by isotonic regression (Ayer et al., "An
///   empirical distribution function for sampling with incomplete information", 1955: pooling of
///   adjacent violators), with Laplace's rule of succession;
/// - the fraction of plausible `findings`. Those above the median score of right findings predict
///   how many have lower scores (the zero assumption of local false discovery rates: Efron,
///   "Large-scale simultaneous hypothesis testing", 2004, with the roles exchanged). If there are
///   more than 1.25 times as many plus two standard deviations, the surplus counts as wrong: images
///   of low quality, for example. Does not apply to leaked people, and to duplicates whose pixels
///   were compared.
///
/// A model that was trained on the errors gives them lower scores than planted ones. Then images
/// with wrong labels are more similar to their own identity than planted ones. If at least 30 of
/// each are found, the second factor compares with planted scores that are lower by the difference
/// of the medians, but by at most this similarity (three times as much for findings about
/// identities).
void set_confidence(std::vector<Finding>& findings, const std::vector<JudgedFinding>& judged);

/// Results for planted errors of one kind.
struct SelfTest {
  /// Planted errors, and those found. [0]: of people with at least kManyImages images; [1]: of
  /// others.
  std::array<std::int64_t, 2> planted{}, found{};
  std::int64_t right = 0, wrong = 0;  ///< findings
};

/// Returns the results by ErrorKind, of findings with at least this confidence.
std::array<SelfTest, kErrorNames.size()> self_test(const PlantedErrors& planted,
                                                   const std::vector<JudgedFinding>& judged,
                                                   double least_confidence);

}  // namespace pfc
