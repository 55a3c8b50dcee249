// Face identification (1:N): whose face in a gallery is this?
#pragma once

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

/// The search for one probe. A similarity is a dot product in float64.
struct Search {
  bool mated = false;      ///< the gallery has an entry of the probe's subject
  double mate = 0;         ///< the greatest similarity to such an entry
  double best_other = -2;  ///< the greatest similarity to any other entry
  /// Rank of the best mate: 1 + the number of other entries that are at least as similar. Equal
  /// similarities count against the mate, or a model that maps all faces to one point would be
  /// perfect.
  std::int64_t rank = 0;
};

/// Searches each probe in the gallery. Runs on `threads` threads (0: all cores); the result does
/// not depend on their number. Takes O(probes) of memory.
std::vector<Search> search(const LabelledRows& probes, const LabelledRows& gallery,
                           int threads = 0);

/// Searches each image of a range in all other images of the set.
std::vector<Search> search_others(const LabelledRows& set, RowRange images, int threads = 0);

/// Part of the mated probes with a mate among the first k; 0 where no probe is mated.
double rank_rate(std::span<const Search> searches, std::int64_t k);

/// True positive identification rate where the part `fpir` of the non-mated probes is accepted:
/// mated probes whose mate is the best entry and above the threshold. The threshold is the
/// max(int(n * fpir), 1)-th greatest best similarity of n non-mated probes, as InsightFace's
/// evaluation_1N() (ijb_evals.py) has it. NaN where no probe is mated or all are.
double tpir_at_fpir(std::span<const Search> searches, double fpir);

/// MegaFace: each image of a probe set is searched, for each other image of its subject, in a
/// gallery of that one mate and all distractors. Returns the ranks of the mates, one for each
/// ordered pair of images of one subject: 1 + the number of distractors that are at
/// least as similar.
std::vector<std::int64_t> ranks_among_distractors(const LabelledRows& probes,
                                                  const LabelledRows& distractors, int threads = 0);

}  // namespace pfc
