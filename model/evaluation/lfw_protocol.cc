#include "model/evaluation/lfw_protocol.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "comm/shard.h"
#include "common/error.h"

namespace pfc {

namespace {

constexpr int kThresholds = 400;

/// `count` thresholds on the squared distance: 0, step, 2 step ...
struct Thresholds {
  int count = kThresholds;
  double step = 0.01;

  [[nodiscard]] double at(int i) const { return i * step; }
  /// Returns the first threshold above the distance; `count` if there is none.
  [[nodiscard]] int first_above(double distance) const {
    if (!(distance < at(count - 1))) return count;  // also for NaN, which is never accepted
    int i = static_cast<int>(distance / step);
    // The quotient may be rounded across a threshold; the comparison decides.
    while (i > 0 && distance < at(i - 1)) --i;
    while (!(distance < at(i))) ++i;
    return i;
  }
};

/// Number of pairs of a fold that each threshold classifies correctly.
using Hits = std::array<std::int64_t, kThresholds>;

Hits count_hits(std::span<const int> first_above, const std::vector<bool>& same,
                std::int64_t begin) {
  // At threshold i, a genuine pair is classified correctly if first_above <= i, and an impostor
  // pair if first_above > i. So each pair changes the count of correct pairs once, at its
  // first_above.
  std::array<std::int64_t, kThresholds + 1> change{};
  // Below the first threshold, only the impostor pairs are classified correctly.
  std::int64_t right = 0;
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

std::vector<double> distances_of(std::span<const float> a, std::span<const float> b,
                                 std::size_t d) {
  std::vector<double> distances(a.size() / d);
  for (std::size_t k = 0; k < distances.size(); ++k) {
    distances[k] = squared_distance(a.subspan(k * d, d), b.subspan(k * d, d));
  }
  return distances;
}

struct MeanAndDeviation {
  double mean = 0, deviation = 0;
};

MeanAndDeviation over_folds(const std::vector<double>& values) {
  if (values.empty()) return {};
  const auto n = static_cast<double>(values.size());
  // Divides the sum, not each value: the mean of equal values is then more exact.
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double x : values) squares += (x - mean) * (x - mean);
  return {mean, std::sqrt(squares / n)};
}

/// Distances and kinds of the pairs, and how they are split.
struct FoldedPairs {
  const std::vector<double>& distances;
  const std::vector<bool>& same;
  int folds;

  [[nodiscard]] RowRange fold(int f) const {
    return shard_of(static_cast<std::int64_t>(same.size()), f, folds);
  }
};

constexpr Thresholds kFine{.count = 4000, .step = 0.001};

/// Returns the threshold for this FAR. counts[i]: number of impostor pairs for which i is the first
/// threshold above the distance.
double threshold_for(double far, const std::vector<std::int64_t>& counts) {
  const auto all =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  std::int64_t accepted = 0;
  double before = 0;
  for (int i = 0; i < kFine.count && all > 0; ++i) {
    accepted += counts[static_cast<std::size_t>(i)];
    const double now = static_cast<double>(accepted) / all;
    if (now >= far) {
      return kFine.at(i) - (i == 0 ? 0 : (now - far) / (now - before) * kFine.step);
    }
    before = now;
  }
  return 0;
}

struct Rates {
  std::vector<double> tar, far;  ///< one for each fold that has such pairs
};

void add_rates(const FoldedPairs& pairs, RowRange fold, double threshold, Rates& rates) {
  std::array<double, 2> accepted{}, count{};  // impostor pairs, genuine pairs
  for (auto k = static_cast<std::size_t>(fold.begin); std::cmp_less(k, fold.end); ++k) {
    ++count[pairs.same[k] ? 1 : 0];
    if (pairs.distances[k] < threshold) ++accepted[pairs.same[k] ? 1 : 0];
  }
  if (count[1] > 0) rates.tar.push_back(accepted[1] / count[1]);
  if (count[0] > 0) rates.far.push_back(accepted[0] / count[0]);
}

std::vector<TarAtFar> tars_of(const FoldedPairs& pairs) {
  std::array<Rates, kFars.size()> rates;
  std::vector<std::int64_t> others;  // impostor pairs of the other folds
  for (int f = 0; f < pairs.folds; ++f) {
    const RowRange fold = pairs.fold(f);
    others.assign(std::size_t{kFine.count} + 1, 0);
    for (std::size_t k = 0; k < pairs.same.size(); ++k) {
      const bool is_own = std::cmp_greater_equal(k, fold.begin) && std::cmp_less(k, fold.end);
      if (is_own || pairs.same[k]) continue;
      ++others[static_cast<std::size_t>(kFine.first_above(pairs.distances[k]))];
    }
    for (std::size_t i = 0; i < kFars.size(); ++i) {
      add_rates(pairs, fold, threshold_for(kFars[i], others), rates[i]);
    }
  }
  std::vector<TarAtFar> tars;
  for (std::size_t i = 0; i < kFars.size(); ++i) {
    const MeanAndDeviation tar = over_folds(rates[i].tar);
    tars.push_back({kFars[i], tar.mean, tar.deviation, over_folds(rates[i].far).mean});
  }
  return tars;
}

Roc roc_of_distances(const std::vector<double>& distances, const std::vector<bool>& same) {
  const auto genuine = std::ranges::count(same, true);
  if (genuine == 0 || genuine == std::ssize(same)) return {};
  std::vector<ScoredPair> pairs(same.size());
  for (std::size_t k = 0; k < same.size(); ++k) pairs[k] = {-distances[k], same[k]};
  return roc_of(std::move(pairs));
}

}  // namespace

int one_sided_folds(const std::vector<bool>& same, int folds) {
  const auto pairs = static_cast<std::int64_t>(same.size());
  folds = static_cast<int>(std::min<std::int64_t>(folds, pairs));
  int one_sided = 0;
  for (int f = 0; f < folds; ++f) {
    const RowRange fold = shard_of(pairs, f, folds);
    const auto genuine = std::count(same.begin() + fold.begin, same.begin() + fold.end, true);
    if (genuine == 0 || genuine == fold.size()) ++one_sided;
  }
  return one_sided;
}

VerificationResult verify_pairs(std::span<const float> a, std::span<const float> b,
                                std::int64_t dimension, const std::vector<bool>& same, int folds) {
  const auto pairs = static_cast<std::int64_t>(same.size());
  const auto d = static_cast<std::size_t>(dimension);
  check(pairs >= 2 && folds >= 2, "verify_pairs: needs two pairs and two folds");
  check(a.size() == same.size() * d && b.size() == a.size(), "verify_pairs: wrong sizes");
  folds = static_cast<int>(std::min<std::int64_t>(folds, pairs));

  const std::vector<double> distances = distances_of(a, b, d);
  constexpr Thresholds kTried;
  std::vector<int> first_above(same.size());
  std::ranges::transform(distances, first_above.begin(),
                         [&](double distance) { return kTried.first_above(distance); });
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
    thresholds += kTried.at(static_cast<int>(best));
  }
  const MeanAndDeviation accuracy = over_folds(accuracies);
  result.accuracy = accuracy.mean;
  result.deviation = accuracy.deviation;
  result.threshold = thresholds / folds;
  result.tars = tars_of({distances, same, folds});
  result.roc = roc_of_distances(distances, same);
  return result;
}

}  // namespace pfc
