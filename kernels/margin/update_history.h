// The updates of a worker's class centres so far, and those that each row has missed
// (kernels/math/missed_updates.h). Host memory and host arithmetic on every device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/math/missed_updates.h"
#include "kernels/math/optimizer.h"

namespace pfc {

/// SGD's updates in order; the first one is number 1. Takes 12 bytes for each update. The products
/// of whole blocks of updates are kept too, so a row that has missed a million updates costs a step
/// no more than one that has missed a hundred.
class UpdateHistory {
 public:
  static constexpr std::int32_t kBlock = 64;

  void add(const SgdOptions& update);
  void restore(std::span<const SgdOptions> updates);  ///< replaces the whole history

  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(updates_.size()); }
  [[nodiscard]] std::span<const SgdOptions> updates() const { return updates_; }
  /// Element i combines updates kBlock * i + 1 to kBlock * (i + 1). Complete blocks only.
  [[nodiscard]] std::span<const MissedUpdates> blocks() const { return blocks_; }
  /// Combines the updates after the last complete block.
  [[nodiscard]] const MissedUpdates& last_block() const { return last_block_; }

 private:
  std::vector<SgdOptions> updates_;
  std::vector<MissedUpdates> blocks_;
  MissedUpdates last_block_;
};

/// The missed updates of some rows: table()[index()[i]] combines those of row i. Index 0 means that
/// the row has missed none. The result for a row depends on the history and on the updates that the
/// row has seen, not on which other rows are planned with it.
class CatchUpPlan {
 public:
  /// Plans the rows of classes [S]. updated [R]: how many updates each row has seen; row i is class
  /// first_class + i. Takes time O(S + number of updates / kBlock).
  void make(const UpdateHistory& history, std::span<const std::int32_t> updated,
            std::int64_t first_class, std::span<const std::int64_t> classes);

  [[nodiscard]] std::span<const std::uint32_t> index() const { return index_; }  ///< [S]
  [[nodiscard]] std::span<const CatchUp> table() const { return table_; }

  /// Host memory of the index of S rows.
  [[nodiscard]] static std::size_t bytes(std::int64_t rows) {
    return static_cast<std::size_t>(rows) * sizeof(std::uint32_t);
  }

 private:
  std::vector<std::uint32_t> index_;
  std::vector<CatchUp> table_;
};

}  // namespace pfc
