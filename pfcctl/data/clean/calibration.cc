#include "pfcctl/data/clean/calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace pfc {

namespace {

constexpr std::size_t kFewestOfGroup = 30;  // planted errors found
constexpr double kTolerance = 1.25;         // planted errors differ a little from real ones
constexpr double kLowestScore = -std::numeric_limits<double>::infinity();

}  // namespace

Calibration::Steps Calibration::fitted(const Scores& scores) {
  std::vector<std::pair<double, bool>> judged;
  for (const double score : scores.right) judged.emplace_back(score, true);
  for (const double score : scores.wrong) judged.emplace_back(score, false);
  std::ranges::sort(judged);
  Steps pooled;
  for (const auto& [score, right] : judged) {
    Step step{.least = score, .right = right ? 1.0 : 0.0, .all = 1};
    while (!pooled.empty() && pooled.back().part() >= step.part()) {
      step = {.least = pooled.back().least,
              .right = pooled.back().right + step.right,
              .all = pooled.back().all + step.all};
      pooled.pop_back();
    }
    pooled.push_back(step);
  }
  return pooled;
}

/// Returns the part of plausible findings below the 10 % quantile of right scores, below the
/// median, and above.
Calibration::Steps Calibration::plausible(Scores scores) {
  std::ranges::sort(scores.right);
  std::ranges::sort(scores.found);
  const std::size_t n = scores.right.size();
  const double low = scores.right[n / 10], median = scores.right[n / 2];
  const auto below = [](const std::vector<double>& sorted, double score) {
    return static_cast<double>(std::ranges::lower_bound(sorted, score) - sorted.begin());
  };
  const auto count = [&](const std::vector<double>& of, double from, double to) {
    return below(of, to) - below(of, from);
  };
  const double infinity = std::numeric_limits<double>::infinity();
  const double right_above = count(scores.right, median, infinity);
  const double above = count(scores.found, median, infinity);
  Steps steps;
  for (const auto& [from, to] : {std::pair(kLowestScore, low), std::pair(low, median)}) {
    const double found = count(scores.found, from, to);
    const double expected = count(scores.right, from, to) * above / right_above;
    const double deviation = std::sqrt(expected * (1 + above / right_above));
    steps.push_back({.least = from,
                     .right = std::min(found, kTolerance * expected + 2 * deviation),
                     .all = found});
    if (found == 0) steps.back() = {.least = from, .right = 1, .all = 1};
  }
  steps[0].right = std::min(steps[0].right, steps[0].all * steps[1].part());
  steps.push_back({.least = median, .right = 1, .all = 1});
  return steps;
}

Calibration::Calibration(const std::vector<Finding>& right, const std::vector<Finding>& wrong,
                         const std::vector<Finding>& found) {
  const auto scores_of_group = [&](FindingKind kind, const auto& chosen) {
    const auto scores_of = [&](const std::vector<Finding>& findings) {
      std::vector<double> scores;
      for (const Finding& f : findings) {
        if (f.kind == kind && chosen(f)) scores.push_back(f.score);
      }
      return scores;
    };
    return Scores{.right = scores_of(right), .wrong = scores_of(wrong), .found = scores_of(found)};
  };
  for (const FindingKind kind : kFindingKinds) {
    for (const bool few : {false, true}) {
      Scores of = scores_of_group(kind, [&](const Finding& f) { return f.few_images == few; });
      if (of.right.size() < kFewestOfGroup)
        of = scores_of_group(kind, [](const Finding&) { return true; });
      if (of.right.empty()) continue;
      fitted_[{kind, few}] = fitted(of);
      plausible_[{kind, few}] = plausible(std::move(of));
    }
  }
}

double Calibration::part_at(const Steps& steps, double score) {
  auto step = std::ranges::upper_bound(steps, score, {}, &Step::least);
  if (step != steps.begin()) --step;
  return step->part();
}

double Calibration::confidence(const Finding& f) const {
  const Group group(f.kind, f.few_images);
  if (!fitted_.contains(group)) return 0;
  return part_at(fitted_.at(group), f.score) * part_at(plausible_.at(group), f.score);
}

}  // namespace pfc
