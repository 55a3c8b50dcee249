#include "model/evaluation/lfw_protocol.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "comm/shard.h"
#include "common/error.h"

namespace pfc {

namespace {

constexpr int kThresholds = 400;

double threshold(int i) { return i * 0.01; }

/// The first threshold that the distance is below, kThresholds when there is none.
int first_threshold_above(double distance) {
  if (!(distance < threshold(kThresholds - 1))) return kThresholds;  // NaN too: never the same
  int i = static_cast<int>(distance / 0.01);
  // The quotient may be rounded across a threshold; the comparison is what the protocol says.
  while (i > 0 && distance < threshold(i - 1)) --i;
  while (!(distance < threshold(i))) ++i;
  return i;
}

/// How many pairs of a fold each threshold judges rightly.
using Hits = std::array<std::int64_t, kThresholds>;

Hits count_hits(std::span<const int> first_above, const std::vector<bool>& same,
                std::int64_t begin) {
  // At threshold i, a genuine pair is right when first_above <= i, an impostor pair when it is not:
  // so each pair changes the count once, where its own threshold lies.
  std::array<std::int64_t, kThresholds + 1> change{};
  std::int64_t right = 0;  // below every threshold: the impostors
  for (std::size_t k = 0; k < first_above.size(); ++k) {
    const bool genuine = same[static_cast<std::size_t>(begin) + k];
    if (!genuine) ++right;
    change[static_cast<std::size_t>(first_above[k])] += genuine ? 1 : -1;
  }
  Hits hits{};
  for (std::size_t i = 0; i < hits.size(); ++i) hits[i] = right += change[i];
  return hits;
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = double{a[i]} - double{b[i]};
    sum += d * d;
  }
  return sum;
}

}  // namespace

VerificationResult verify_pairs(std::span<const float> a, std::span<const float> b,
                                std::int64_t dimension, const std::vector<bool>& same, int folds) {
  const auto pairs = static_cast<std::int64_t>(same.size());
  const auto d = static_cast<std::size_t>(dimension);
  check(pairs >= 2 && folds >= 2, "verify_pairs: at least two pairs and two folds");
  check(a.size() == same.size() * d && b.size() == a.size(), "verify_pairs: wrong sizes");
  folds = static_cast<int>(std::min<std::int64_t>(folds, pairs));

  std::vector<int> first_above(same.size());
  for (std::size_t k = 0; k < same.size(); ++k) {
    first_above[k] =
        first_threshold_above(squared_distance(a.subspan(k * d, d), b.subspan(k * d, d)));
  }
  std::vector<Hits> hits;
  Hits all{};
  for (int f = 0; f < folds; ++f) {
    const RowRange fold = shard_of(pairs, f, folds);
    hits.push_back(count_hits(
        std::span(first_above)
            .subspan(static_cast<std::size_t>(fold.begin), static_cast<std::size_t>(fold.size())),
        same, fold.begin));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += hits.back()[i];
  }

  VerificationResult result;
  result.pairs = pairs;
  std::vector<double> accuracies;
  double thresholds = 0;
  for (int f = 0; f < folds; ++f) {
    const Hits& own = hits[static_cast<std::size_t>(f)];
    Hits others{};
    for (std::size_t i = 0; i < all.size(); ++i) others[i] = all[i] - own[i];
    const auto best = std::max_element(others.begin(), others.end()) - others.begin();
    const double accuracy = static_cast<double>(own[static_cast<std::size_t>(best)]) /
                            static_cast<double>(shard_of(pairs, f, folds).size());
    accuracies.push_back(accuracy);
    thresholds += threshold(static_cast<int>(best));
  }
  // Sums first: equal accuracies then have exactly their own mean.
  result.accuracy = std::accumulate(accuracies.begin(), accuracies.end(), 0.0) / folds;
  result.threshold = thresholds / folds;
  double squares = 0;
  for (const double x : accuracies) squares += (x - result.accuracy) * (x - result.accuracy);
  result.deviation = std::sqrt(squares / folds);
  return result;
}

}  // namespace pfc
