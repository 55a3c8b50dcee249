#include "model/evaluation/identification.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include "common/error.h"
#include "common/ordered_work.h"
#include "data/images/vector_clones.h"

namespace pfc {

namespace {

constexpr std::int64_t kBlock = 16;  // probes that share a pass over the gallery

/// Returns the inner product. Sums in eight lanes, which the compiler can vectorise. Every caller
/// gets the same bits.
PFC_VECTOR_CLONES double dot(const double* a, const double* b, std::size_t n) {
  std::array<double, 8> lanes{};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t k = 0; k < 8; ++k) lanes[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) lanes[0] += a[i] * b[i];
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

double similarity(const LabelledRows& a, std::size_t i, const LabelledRows& b, std::size_t j) {
  const auto d = static_cast<std::size_t>(a.dimension);
  return dot(a.rows.data() + i * d, b.rows.data() + j * d, d);
}

std::multimap<std::int64_t, std::size_t> rows_of_subjects(const LabelledRows& rows) {
  std::multimap<std::int64_t, std::size_t> by_subject;
  for (std::size_t i = 0; i < rows.subject.size(); ++i) by_subject.emplace(rows.subject[i], i);
  return by_subject;
}

void check_sizes(const LabelledRows& a, const LabelledRows& b) {
  const auto d = static_cast<std::size_t>(a.dimension);
  check(a.dimension == b.dimension && a.rows.size() == a.subject.size() * d &&
            b.rows.size() == b.subject.size() * d,
        "identification: sizes do not match");
}

/// Divides the probes into blocks, calls work(begin, end) for each block, one block at a time on
/// each thread, and returns the results in order.
template <class Result, class Work>
std::vector<Result> for_probes(RowRange probes, int threads, const Work& work) {
  std::vector<Result> results;
  ordered_work<std::vector<Result>>(
      (probes.size() + kBlock - 1) / kBlock, threads,
      [&](std::int64_t block) {
        const std::int64_t begin = probes.begin + block * kBlock;
        return work(static_cast<std::size_t>(begin),
                    static_cast<std::size_t>(std::min(probes.end, begin + kBlock)));
      },
      [&](std::int64_t, std::vector<Result> block) {
        std::ranges::move(block, std::back_inserter(results));
      });
  return results;
}

RowRange all_of(const LabelledRows& rows) { return {0, std::ssize(rows.subject)}; }

/// The similarities of a probe's mates, and the number of other entries below, between and above
/// them.
class MatePlaces {
 public:
  void add_mate(double similarity) {
    constexpr double kLeast = -2;  // replaces a smaller similarity, or one that is not a number
    levels_.push_back(std::max(kLeast, similarity));
  }
  /// REQUIRES: called between the last add_mate() and the first add_other().
  void sort() {
    std::ranges::sort(levels_);
    above_.resize(levels_.size() + 1);
  }
  void add_other(double similarity) {
    const auto level = std::ranges::upper_bound(levels_, similarity);
    ++above_[static_cast<std::size_t>(level - levels_.begin())];
  }

  [[nodiscard]] bool empty() const { return levels_.empty(); }
  [[nodiscard]] double best() const { return levels_.empty() ? -2 : levels_.back(); }
  /// Calls f(rank) for each mate, the most similar first. The rank is 1 + the number of other
  /// entries that are at least as similar. If there is no mate, calls f once, with a rank after all
  /// other entries.
  template <class F>
  void each_rank(const F& f) const {
    std::int64_t rank = 1 + above_.back();
    f(rank);
    for (std::size_t k = levels_.size(); k-- > 1;) f(rank += above_[k]);
  }

 private:
  std::vector<double> levels_;       // similarities of the mates, ascending
  std::vector<std::int64_t> above_;  // [mates + 1]: other entries below, between and above them
};

/// Compares each probe of a block with its mates in `gallery`. If the gallery is the probes' own
/// set, a probe is not its own mate.
std::vector<MatePlaces> places_of_mates(const LabelledRows& probes, std::size_t begin,
                                        std::size_t end, const LabelledRows& gallery,
                                        const std::multimap<std::int64_t, std::size_t>& mates) {
  std::vector<MatePlaces> places(end - begin);
  for (std::size_t i = begin; i < end; ++i) {
    const auto [first, last] = mates.equal_range(probes.subject[i]);
    for (auto m = first; m != last; ++m) {
      if (&probes == &gallery && m->second == i) continue;
      places[i - begin].add_mate(similarity(probes, i, gallery, m->second));
    }
    places[i - begin].sort();
  }
  return places;
}

Search search_of(const MatePlaces& places, double best_other) {
  Search found{.mated = !places.empty(), .mate = places.best(), .best_other = best_other};
  std::int64_t better_mates = 0;
  places.each_rank([&](std::int64_t rank) {
    if (better_mates == 0) found.rank = rank;
    for (std::size_t k = 0; found.mated && k < kRecallRanks.size(); ++k) {
      if (rank + better_mates <= kRecallRanks[k]) ++found.mates_within[k];
    }
    ++better_mates;
  });
  return found;
}

std::vector<Search> search_range(const LabelledRows& probes, RowRange range,
                                 const LabelledRows& gallery, int threads) {
  check_sizes(probes, gallery);
  const auto mates = rows_of_subjects(gallery);
  return for_probes<Search>(range, threads, [&](std::size_t begin, std::size_t end) {
    std::vector<MatePlaces> places = places_of_mates(probes, begin, end, gallery, mates);
    std::vector<double> best_other(places.size(), -2);
    for (std::size_t j = 0; j < gallery.subject.size(); ++j) {
      for (std::size_t i = begin; i < end; ++i) {
        if (gallery.subject[j] == probes.subject[i]) continue;
        const double other = similarity(probes, i, gallery, j);
        best_other[i - begin] = std::max(best_other[i - begin], other);
        places[i - begin].add_other(other);
      }
    }
    std::vector<Search> found;
    for (std::size_t i = 0; i < places.size(); ++i) {
      found.push_back(search_of(places[i], best_other[i]));
    }
    return found;
  });
}

}  // namespace

std::vector<Search> search(const LabelledRows& probes, const LabelledRows& gallery, int threads) {
  return search_range(probes, all_of(probes), gallery, threads);
}

std::vector<Search> search_others(const LabelledRows& set, RowRange images, int threads) {
  return search_range(set, images, set, threads);
}

double rank_rate(std::span<const Search> searches, std::int64_t k) {
  const auto mated = std::ranges::count_if(searches, &Search::mated);
  const auto hits =
      std::ranges::count_if(searches, [&](const Search& s) { return s.mated && s.rank <= k; });
  return mated == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(mated);
}

std::array<double, kRecallRanks.size()> precisions(std::span<const Search> searches) {
  std::array<double, kRecallRanks.size()> all{};
  const auto mated = std::ranges::count_if(searches, &Search::mated);
  for (std::size_t k = 0; k < kRecallRanks.size() && mated > 0; ++k) {
    std::int64_t mates = 0;
    for (const Search& s : searches) mates += s.mates_within[k];
    all[k] = static_cast<double>(mates) / static_cast<double>(mated * kRecallRanks[k]);
  }
  return all;
}

double tpir_at_fpir(std::span<const Search> searches, double fpir) {
  std::vector<double> others;
  for (const Search& s : searches) {
    if (!s.mated) others.push_back(s.best_other);
  }
  const std::size_t mated = searches.size() - others.size();
  if (others.empty() || mated == 0) return std::numeric_limits<double>::quiet_NaN();
  std::ranges::sort(others, std::ranges::greater{});
  const auto place = static_cast<std::size_t>(static_cast<double>(others.size()) * fpir);
  const double threshold = others[std::max<std::size_t>(place, 1) - 1];
  const auto hits = std::ranges::count_if(searches, [&](const Search& s) {
    return s.mated && s.mate > s.best_other && s.mate > threshold;
  });
  return static_cast<double>(hits) / static_cast<double>(mated);
}

std::vector<std::int64_t> ranks_among_distractors(const LabelledRows& probes,
                                                  const LabelledRows& distractors, int threads) {
  check_sizes(probes, distractors);
  const auto mates = rows_of_subjects(probes);
  return for_probes<std::int64_t>(all_of(probes), threads, [&](std::size_t begin, std::size_t end) {
    std::vector<MatePlaces> places = places_of_mates(probes, begin, end, probes, mates);
    for (std::size_t j = 0; j < distractors.subject.size(); ++j) {
      for (std::size_t i = begin; i < end; ++i) {
        places[i - begin].add_other(similarity(probes, i, distractors, j));
      }
    }
    std::vector<std::int64_t> ranks;
    for (const MatePlaces& each : places) {
      if (!each.empty()) each.each_rank([&](std::int64_t rank) { ranks.push_back(rank); });
    }
    return ranks;
  });
}

}  // namespace pfc
