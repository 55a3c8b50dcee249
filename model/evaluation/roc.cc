#include "model/evaluation/roc.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "common/error.h"

namespace pfc {

namespace {

struct Counts {
  std::int64_t impostors = 0, genuine = 0;  ///< numbers of accepted pairs
  double score = 0;
};

bool on_a_line(const Counts& a, const Counts& b, const Counts& c) {
  return c.impostors - b.impostors == b.impostors - a.impostors &&
         c.genuine - b.genuine == b.genuine - a.genuine;
}

/// Returns one entry for each score, the highest first.
std::vector<Counts> accepted_pairs(std::vector<ScoredPair> pairs) {
  for (ScoredPair& pair : pairs) {
    if (std::isnan(pair.score)) pair.score = -std::numeric_limits<double>::infinity();
  }
  std::ranges::sort(pairs, std::ranges::greater{}, &ScoredPair::score);
  std::vector<Counts> counts;
  for (const ScoredPair& pair : pairs) {
    if (counts.empty()) counts.push_back({.score = pair.score});
    if (counts.back().score != pair.score) {
      counts.push_back(counts.back());
      counts.back().score = pair.score;
    }
    ++(pair.same ? counts.back().genuine : counts.back().impostors);
  }
  return counts;
}

}  // namespace

Roc roc_of(std::vector<ScoredPair> pairs) {
  const std::vector<Counts> counts = accepted_pairs(std::move(pairs));
  Roc roc;
  if (!counts.empty()) {
    roc.genuine = counts.back().genuine;
    roc.impostors = counts.back().impostors;
  }
  check(roc.genuine > 0 && roc.impostors > 0, "roc_of: needs pairs of both kinds");
  roc.points.push_back({0, 0, std::numeric_limits<double>::infinity()});
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool inner = i > 0 && i + 1 < counts.size();
    if (inner && on_a_line(counts[i - 1], counts[i], counts[i + 1])) continue;
    roc.points.push_back(
        {static_cast<double>(counts[i].impostors) / static_cast<double>(roc.impostors),
         static_cast<double>(counts[i].genuine) / static_cast<double>(roc.genuine),
         counts[i].score});
  }
  return roc;
}

double tpr_near(const Roc& roc, double fpr) {
  const RocPoint* nearest = &roc.points.back();
  for (auto point = roc.points.rbegin(); point != roc.points.rend(); ++point) {
    if (std::abs(point->fpr - fpr) < std::abs(nearest->fpr - fpr)) nearest = &*point;
  }
  return nearest->tpr;
}

double equal_error_rate(const Roc& roc) {
  const auto excess = [](const RocPoint& p) { return p.fpr - (1 - p.tpr); };  // rises from -1 to 1
  const auto after =
      std::ranges::find_if(roc.points, [&](const RocPoint& p) { return excess(p) >= 0; });
  const RocPoint& before = *std::prev(after);
  const double part = -excess(before) / (excess(*after) - excess(before));
  return before.fpr + part * (after->fpr - before.fpr);
}

double min_detection_cost(const Roc& roc, double prior) {
  double least = std::numeric_limits<double>::infinity();
  for (const RocPoint& p : roc.points) {
    least = std::min(least, prior * (1 - p.tpr) + (1 - prior) * p.fpr);
  }
  return least / std::min(prior, 1 - prior);
}

}  // namespace pfc
