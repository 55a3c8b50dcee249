// Face identification (1:N): finds the person of a probe in a gallery.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/shard.h"

namespace pfc {

/// Unit-length embeddings and the numbers of their subjects.
struct LabelledRows {
  std::int64_t dimension = 0;
  std::vector<double> rows = {};           ///< [n, D]
  std::vector<std::int64_t> subject = {};  ///< [n]
};

/// Numbers K of most similar entries for Recall@K and P@K.
inline constexpr std::array<std::int64_t, 4> kRecallRanks = {1, 10, 100, 1000};

/// Result of the search for one probe. A similarity is a dot product in float64.
struct Search {
  bool mated = false;      ///< whether the gallery has an entry of the probe's subject: a mate
  double mate = 0;         ///< the greatest similarity to a mate
  double best_other = -2;  ///< the greatest similarity to any other entry
  /// Rank of the best mate: 1 + the number of other entries that are at least as similar. Equal
  /// similarities count against the mate. Otherwise a model that maps all faces to one point would
  /// be perfect.
  std::int64_t rank = 0;
  /// For each K of kRecallRanks: the number of mates among the K most similar entries.
  std::array<std::int64_t, kRecallRanks.size()> mates_within{};
};

/// Searches for each probe in the gallery. Runs on `threads` threads (0: all cores); the result
/// does not depend on their number. Takes O(probes) of memory.
std::vector<Search> search(const LabelledRows& probes, const LabelledRows& gallery,
                           int threads = 0);

/// Searches for each image of a range among all other images of the set.
std::vector<Search> search_others(const LabelledRows& set, RowRange images, int threads = 0);

/// Returns the fraction of the mated probes with a mate among the first k; 0 if no probe is mated.
double rank_rate(std::span<const Search> searches, std::int64_t k);

/// Returns P@K for each K of kRecallRanks: the mean over the mated probes of the fraction of the K
/// most similar entries that are mates; 0 if none is mated.
std::array<double, kRecallRanks.size()> precisions(std::span<const Search> searches);

/// Returns the true positive identification rate: the fraction of the mated probes whose mate is
/// the best entry and above the threshold. The threshold accepts the fraction `fpir` of n non-mated
/// probes: it is their max(int(n * fpir), 1)-th greatest best similarity, as in InsightFace's
/// evaluation_1N() (ijb_evals.py). NaN if no probe is mated or all are.
double tpir_at_fpir(std::span<const Search> searches, double fpir);

/// MegaFace: takes each other image of a probe's subject as the probe's mate, and searches for the
/// probe in a gallery of that mate and all distractors. Returns the ranks of the mates, one for
/// each ordered pair of images of one subject. A rank is 1 + the number of distractors that are at
/// least as similar as the mate.
std::vector<std::int64_t> ranks_among_distractors(const LabelledRows& probes,
                                                  const LabelledRows& distractors, int threads = 0);

}  // namespace pfc
