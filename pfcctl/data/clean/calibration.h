// Estimates how probably findings are right, by planted errors.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "pfcctl/data/clean/planted_errors.h"

namespace pfc {

/// Sets the confidence of all findings in a set, by their kind and score; separately for identities
/// with few images, if at least 30 planted errors were found of them; to 0 if no planted error of a
/// kind was found. The confidence does not fall with a rising score. It is the product of:
/// - the part of right findings among `judged`, fitted by isotonic regression (Ayer et al., "An
///   empirical distribution function for sampling with incomplete information", 1955: pooling of
///   adjacent violators);
/// - what the scores of `findings` say. Their number above the median score of right findings
///   implies how many have lower scores (the zero assumption of local false discovery rates: Efron,
///   "Large-scale simultaneous hypothesis testing", 2004, with the roles exchanged). If there are
///   more, by a quarter and two standard deviations, the others are wrong: images of low quality in
///   a set without errors, for example. Does not apply to leaked people.
void set_confidence(std::vector<Finding>& findings, const std::vector<JudgedFinding>& judged);

/// Results for planted errors of one kind.
struct SelfTest {
  /// Number of errors, and of those found; of people with at least kManyImages images, and of
  /// others.
  std::array<std::int64_t, 2> planted{}, found{};
  std::int64_t right = 0, wrong = 0;  ///< findings
};

/// Returns the results by ErrorKind, of findings with at least this confidence.
std::array<SelfTest, kErrorNames.size()> self_test(const PlantedErrors& planted,
                                                   const std::vector<JudgedFinding>& judged,
                                                   double least_confidence);

}  // namespace pfc
