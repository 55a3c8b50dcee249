// Converts scores of findings to the probability that they are right.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "pfcctl/data/clean/finding.h"

namespace pfc {

/// Estimates, for each kind of finding, the part that is right, by score; separately for identities
/// with few images, if at least 30 planted errors were found of them. It is the product of two
/// factors, and does not fall with a rising score:
/// - the part of right findings among those that planted errors caused. It is fitted by isotonic
///   regression (Ayer et al., "An empirical distribution function for sampling with incomplete
///   information", 1955: pooling of adjacent violators);
/// - what the scores of all findings in the set itself say. Their number above the median score of
///   right findings implies how many have lower scores (the zero assumption of local false
///   discovery rates: Efron, "Large-scale simultaneous hypothesis testing", 2004, with the roles
///   exchanged). If there are more, by a quarter and two standard deviations, the others are wrong:
///   images of low quality in a set without errors, for example.
class Calibration {
 public:
  /// right, wrong: findings that planted errors caused. found: findings in the set itself.
  Calibration(const std::vector<Finding>& right, const std::vector<Finding>& wrong,
              const std::vector<Finding>& found);

  /// Returns the confidence, 0 to 1; 0 if no planted error of this kind was found.
  [[nodiscard]] double confidence(const Finding& finding) const;

 private:
  /// Scores from `least` on.
  struct Step {
    double least = 0;
    double right = 0, all = 0;
    [[nodiscard]] double part() const { return right / all; }
  };
  /// Ascending by score, and by part if fitted.
  using Steps = std::vector<Step>;
  struct Scores {
    std::vector<double> right, wrong, found;
  };
  static Steps fitted(const Scores& scores);
  static Steps plausible(Scores scores);
  static double part_at(const Steps& steps, double score);

  using Group = std::pair<FindingKind, bool>;  // whether Finding::few_images is set
  std::map<Group, Steps> fitted_, plausible_;
};

}  // namespace pfc
