// Which classes take part in a step (Partial FC, arXiv 2203.15565, section 3.2): every class that
// occurs in the batch, and a random part of the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/shard.h"
#include "kernels/margin/margin_softmax.h"

namespace pfc {

struct SampleOptions {
  std::int64_t classes = 0;  ///< of the whole table
  double rate = 1.0;         ///< 0: only the classes of the batch; 1: all
  std::uint64_t seed = 0;
};

/// The active classes of a shard as sorted global indices: every label that lies in the shard, and
/// every class c with u(seed, step, c) < rate, where u is uniform in [0, 1) by Philox 4x32-10. A
/// pure function of its arguments: the shards together hold the same set for any number of workers.
/// Takes time proportional to the shard. Throws InputError that names the label and its sample when
/// a label is outside 0 .. classes - 1.
std::vector<std::int64_t> sample_classes(const SampleOptions& options, RowRange shard,
                                         std::span<const std::int64_t> labels, std::int64_t step);

/// The most active classes to expect in a shard of `rows` classes: rows * rate, rounded up, and one
/// more for each label. The number that is drawn varies around rows * rate.
std::int64_t expected_active(double rate, std::int64_t rows, std::int64_t labels);

/// The labels that lie in the shard, each with its index in `active`, sorted by that index.
/// REQUIRES: `active` holds every label of the shard.
std::vector<Positive> find_positives(RowRange shard, std::span<const std::int64_t> active,
                                     std::span<const std::int64_t> labels);

}  // namespace pfc
