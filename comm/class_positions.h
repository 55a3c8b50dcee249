// The order in which class centres are stored, and how workers share them.
#pragma once

#include <cstdint>

#include "comm/shard.h"
#include "kernels/math/permutation.h"

namespace pfc {

/// Sampling draws blocks of `sample_unit` adjacent positions. With sample_unit above 1, classes are
/// at pseudo-random positions, so that the classes of a block are unrelated. Shards, active classes
/// and all tables of centres use positions. Data, files for people and messages use labels.
struct ClassPositions {
  std::int64_t classes = 0;
  std::int64_t sample_unit = 1;  ///< a power of two; 1: each class is at the position of its label
  std::uint64_t seed = 0;        ///< of the permutation

  [[nodiscard]] bool in_label_order() const { return sample_unit == 1; }

  /// Returns the position of a class. Returns a label outside 0 .. classes - 1 unchanged.
  [[nodiscard]] std::int64_t position_of(std::int64_t label) const {
    if (in_label_order() || label < 0 || label >= classes) return label;
    return static_cast<std::int64_t>(permutation().place_of(static_cast<std::uint64_t>(label)));
  }

  /// Returns the label of the class at a position. Returns a position outside 0 .. classes - 1
  /// unchanged.
  [[nodiscard]] std::int64_t label_at(std::int64_t position) const {
    if (in_label_order() || position < 0 || position >= classes) return position;
    return static_cast<std::int64_t>(
        permutation().element_at(static_cast<std::uint64_t>(position)));
  }

  /// Returns whether every class has the same position here and in `other`.
  [[nodiscard]] bool same_order(const ClassPositions& other) const {
    if (in_label_order() || other.in_label_order()) return sample_unit == other.sample_unit;
    return seed == other.seed && classes == other.classes;
  }

  /// Returns the positions of worker `rank`. No block is divided between workers.
  [[nodiscard]] RowRange shard(int rank, int world_size) const {
    return shard_of(classes, rank, world_size, sample_unit);
  }

 private:
  [[nodiscard]] Permutation permutation() const {
    return {seed, static_cast<std::uint64_t>(classes)};
  }
};

}  // namespace pfc
