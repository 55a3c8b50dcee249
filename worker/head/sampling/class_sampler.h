// Chooses the active classes of a step (Partial FC, arXiv 2203.15565, section 3.2): every class
// that occurs in the batch, and a random part of the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/shard.h"
#include "kernels/margin/margin_softmax.h"
#include "worker/head/sampling/class_neighbours.h"

namespace pfc {

struct SampleOptions {
  std::int64_t classes = 0;  ///< number of classes in the whole table
  double rate = 1.0;         ///< 0: only the classes of the batch; 1: all
  std::int64_t hold = 1;     ///< steps for which a class stays drawn, 1 to 2^31
  std::int64_t unit = 1;     ///< adjacent classes that are drawn together
  std::uint64_t seed = 0;
  std::int64_t labels_per_image = 1;
};

/// Returns the active classes of a shard as sorted global positions (comm/class_positions.h): every
/// label in the shard, and every class of each block b of `unit` classes with u(seed, (step +
/// phase(b)) / hold, b) < rate. The quotient is rounded down; u is uniform in [0, 1), and phase(b)
/// in 0 .. hold - 1 (both Philox 4x32-10, see ClassDraw). So the union over all shards is the same
/// for any number of workers. A label does not activate the other classes of its block. Takes time
/// proportional to the shard. labels: [N, labels_per_image] as positions, padded with -1. Throws
/// InputError that names the label and its sample if a label is outside 0 .. classes - 1. REQUIRES:
/// the shard consists of whole blocks.
std::vector<std::int64_t> sample_classes(const SampleOptions& options, RowRange shard,
                                         std::span<const std::int64_t> labels, std::int64_t step);

/// The classes of the whole table that take part in a step in any case, and the rate at which all
/// others are drawn.
struct CertainClasses {
  std::vector<std::int64_t> classes;  ///< positions, sorted: labels and neighbours
  double rate = 0;                    ///< SampleOptions::rate
};

/// Returns the labels and, of their neighbours' blocks of `unit` classes, as many as replace at
/// most half of the classes that sample_classes() draws on average for these options. The nearest
/// neighbours of all labels come first, then the second nearest, and so on. The order of the labels
/// begins at a random one, which depends on seed and step. The rate is lowered, so the expected
/// number of active classes stays the same. Without neighbours, at the rates 0 and 1, and if all
/// classes are labels, returns the labels and the unchanged rate. sample_classes(), given the
/// result as labels and rate, returns the active classes. labels and exceptions: as for
/// sample_classes(). Pure, so the result is the same on every worker.
CertainClasses add_neighbours(const SampleOptions& options, const ClassNeighbours& neighbours,
                              std::span<const std::int64_t> labels, std::int64_t step);

/// Returns log(1 / rate), or 0 if the rate is 0. This is added to the logits of the drawn classes
/// (logQ correction; Bengio and Senecal 2008, arXiv 2507.09331). A class that is not a
/// label is active with probability `rate`, so the corrected sum of exponentials over the active
/// classes is an unbiased estimate of the sum over all. The value is the same on every worker.
double drawn_logit(double rate);

/// Returns an estimate of the active classes in a shard of `rows` classes: rows * rate, rounded up,
/// plus one for each label, at most `rows`. The number drawn varies around rows * rate.
std::int64_t expected_active(double rate, std::int64_t rows, std::int64_t labels);

/// Returns the most classes that add_neighbours() adds at this rate, if the labels have `near`
/// neighbours, counted with their blocks. One shard may have them all.
std::int64_t most_neighbours(double rate, std::int64_t classes, std::int64_t near);

/// Returns the labels in the shard, each with its index in `active`, sorted by that index. labels:
/// [N, labels_per_image]. REQUIRES: `active` holds every label of the shard.
std::vector<Positive> find_positives(RowRange shard, std::span<const std::int64_t> active,
                                     std::span<const std::int64_t> labels,
                                     std::int64_t labels_per_image = 1);

}  // namespace pfc
