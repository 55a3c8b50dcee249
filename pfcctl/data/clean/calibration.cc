#include "pfcctl/data/clean/calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

namespace pfc {

namespace {

constexpr std::int64_t kFewestOfGroup = 30;  // planted errors found
constexpr double kTolerance = 1.25;          // planted errors differ a little from real ones
// Errors of identities are learnt better than single wrong labels, because all their images agree.
constexpr double kLearntByIdentities = 3;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The fraction of right findings among those with scores from `least` on.
struct Step {
  double least = 0;
  double right = 0, all = 0;
  [[nodiscard]] double part() const { return right / all; }
};
using Steps = std::vector<Step>;  // ascending by score and by part

double part_at(const Steps& steps, double score) {
  auto step = std::ranges::upper_bound(steps, score, {}, &Step::least);
  if (step != steps.begin()) --step;
  return step->part();
}

/// judged: scores, and whether the findings are right.
Steps fitted(std::vector<std::pair<double, bool>> judged) {
  // Of findings with equal scores the right ones come first, so that they are pooled with the
  // wrong.
  std::ranges::sort(judged, {}, [](const auto& j) { return std::pair(j.first, !j.second); });
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
  double probability = 0;  // by Laplace's rule of succession: few findings say little
  for (Step& step : pooled) {
    probability = std::max(probability, (step.right + 1) / (step.all + 2));
    step = {.least = step.least, .right = probability, .all = 1};
  }
  return pooled;
}

/// Returns, for three ranges of scores (they meet at the 10 % quantile and the median of `right`),
/// the fraction of `found` that `right` predicts. Both arguments are sorted.
Steps plausible(const std::vector<double>& right, const std::vector<double>& found) {
  const double low = right[right.size() / 10], median = right[right.size() / 2];
  const auto count = [](const std::vector<double>& of, double from, double to) {
    return static_cast<double>(std::ranges::lower_bound(of, to) -
                               std::ranges::lower_bound(of, from));
  };
  // Findings for each planted error. The 1 prevents conclusions from one or two findings.
  const double part = (count(found, median, kInfinity) + 1) / (count(right, median, kInfinity) + 1);
  Steps steps;
  for (const auto& [from, to] : {std::pair(-kInfinity, low), std::pair(low, median)}) {
    const double all = count(found, from, to), expected = count(right, from, to) * part;
    const double most = kTolerance * expected + 2 * std::sqrt(expected * (1 + part));
    steps.push_back(
        {.least = from, .right = all > 0 ? std::min(all, most) : 1, .all = std::max(all, 1.0)});
  }
  steps[0].right = std::min(steps[0].right, steps[0].all * steps[1].part());
  steps.push_back({.least = median, .right = 1, .all = 1});
  return steps;
}

double median_of(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

/// Returns by how much real wrong labels are more similar to their own identity than planted ones,
/// because the model was trained on them. Of the real ones it uses only the kind wrong_label, whose
/// findings are nearly all right. Returns 0 if there are few.
double learnt_similarity(const std::vector<Finding>& findings,
                         const std::vector<JudgedFinding>& judged) {
  std::vector<double> real, planted;
  const auto add = [](const Finding& f, std::vector<double>& to) {
    const auto own = std::ranges::find_if(
        f.evidence, [](const auto& e) { return std::string_view(e.first) == kSimilarityToOwn; });
    if (own != f.evidence.end()) to.push_back(own->second);
  };
  for (const Finding& f : findings) {
    if (f.kind == FindingKind::kWrongLabel) add(f, real);
  }
  for (const JudgedFinding& j : judged) {
    if (j.right) add(j.finding, planted);
  }
  if (std::min(std::ssize(real), std::ssize(planted)) < kFewestOfGroup) return 0;
  return std::max(0.0, median_of(std::move(real)) - median_of(std::move(planted)));
}

/// Sets the confidence of the findings for which sets() is true, from those for which counts() is.
/// If the median score of planted errors is above that of the findings, lowers all their scores by
/// the difference, at most by `most`, so that the low scores of the findings are not suspicious.
template <class Sets, class Counts>
void set_group(std::vector<Finding>& findings, const std::vector<JudgedFinding>& judged,
               double most, const Sets& sets, const Counts& counts) {
  std::vector<std::pair<double, bool>> scores;
  std::vector<double> right, found;
  for (const JudgedFinding& j : judged) {
    if (!counts(j.finding)) continue;
    scores.emplace_back(j.finding.score, j.right);
    if (j.right) right.push_back(j.finding.score);
  }
  for (const Finding& f : findings) {
    // Images of a test set may be unlike the others, so scores of leaked people say nothing here.
    // Real copies may differ more from their sources than planted ones.
    const bool comparable = f.kind != FindingKind::kLeaked && !f.same_pixels;
    if (counts(f) && comparable) found.push_back(f.score);
  }
  if (right.empty()) return;
  if (!found.empty()) {
    const double shift = std::clamp(median_of(right) - median_of(found), 0.0, most);
    for (double& score : right) score -= shift;
  }
  std::ranges::sort(right);
  std::ranges::sort(found);
  const Steps by_judged = fitted(std::move(scores)), by_found = plausible(right, found);
  for (Finding& f : findings) {
    if (!sets(f)) continue;
    f.confidence = part_at(by_judged, f.score) * part_at(by_found, f.score);
  }
}

}  // namespace

void set_confidence(std::vector<Finding>& findings, const std::vector<JudgedFinding>& judged) {
  const double learnt = learnt_similarity(findings, judged);
  for (std::size_t k = 0; k < kFindingNames.size(); ++k) {
    const auto kind = static_cast<FindingKind>(k);
    const auto of_kind = [&](const Finding& f) { return f.kind == kind; };
    const bool of_images = kind == FindingKind::kWrongLabel || kind == FindingKind::kStranger;
    const double most = of_images ? learnt : kLearntByIdentities * learnt;
    for (const bool few : {false, true}) {
      const auto of_group = [&](const Finding& f) { return f.kind == kind && f.few_images == few; };
      if (std::ranges::count_if(judged, [&](const JudgedFinding& j) {
            return j.right && of_group(j.finding);
          }) >= kFewestOfGroup) {
        set_group(findings, judged, most, of_group, of_group);
      } else {
        set_group(findings, judged, most, of_group, of_kind);
      }
    }
  }
}

std::array<SelfTest, kErrorNames.size()> self_test(const PlantedErrors& planted,
                                                   const std::vector<JudgedFinding>& judged,
                                                   double least_confidence) {
  std::vector<Finding> findings;
  for (const JudgedFinding& j : judged) findings.push_back(j.finding);
  set_confidence(findings, judged);
  std::array<SelfTest, kErrorNames.size()> tests{};
  std::vector<bool> found(planted.errors.size());
  // The kind of error that a finding of each FindingKind reports.
  constexpr std::array kReports = {ErrorKind::kFlipped, ErrorKind::kFlipped, ErrorKind::kSplit,
                                   ErrorKind::kMerged,  ErrorKind::kCopied,  ErrorKind::kLeaked};
  for (std::size_t i = 0; i < judged.size(); ++i) {
    if (findings[i].confidence < least_confidence) continue;
    const auto kind = kReports[static_cast<std::size_t>(findings[i].kind)];
    SelfTest& test = tests[static_cast<std::size_t>(kind)];
    ++(judged[i].right ? test.right : test.wrong);
    if (judged[i].right) found[judged[i].error] = true;
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const PlantedError& e = planted.errors[i];
    SelfTest& test = tests[static_cast<std::size_t>(e.kind)];
    ++test.planted[e.small ? 1 : 0];
    test.found[e.small ? 1 : 0] += found[i] ? 1 : 0;
  }
  return tests;
}

}  // namespace pfc
