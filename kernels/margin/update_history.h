// The updates of a worker's class centres so far, and the updates that each row has missed
// (kernels/math/missed_updates.h). Uses host memory and host arithmetic on every device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/config/choices.h"
#include "kernels/math/missed_updates.h"

namespace pfc {

/// Parameters that determine what an update does to a row without a gradient.
struct PastUpdate {
  float lr = 0;
  /// SGD's momentum. For AdamW the number of the update, from 1, which determines its bias
  /// correction. float32 is exact up to 2^24, where the correction has long been 1.
  float momentum_or_number = 0;
  float weight_decay = 0;
};

/// The updates of one optimizer, in order. Takes 12 bytes each. Combinations of whole blocks of
/// updates are stored too, so a row that has missed a million updates costs no more than one that
/// has missed a hundred.
class UpdateHistory {
 public:
  static constexpr std::int32_t kBlock = 64;

  explicit UpdateHistory(OptimizerKind optimizer) : optimizer_(optimizer) {}

  void add(const PastUpdate& update);
  void restore(std::span<const PastUpdate> updates);  ///< replaces the whole history

  [[nodiscard]] OptimizerKind optimizer() const { return optimizer_; }
  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(updates_.size()); }
  [[nodiscard]] std::span<const PastUpdate> updates() const { return updates_; }
  /// Returns what the update with this index does to a row without a gradient.
  [[nodiscard]] MissedUpdates missed(std::size_t index) const { return missed(updates_[index]); }
  /// Returns the updates of `missed` in the form that is applied to a row.
  [[nodiscard]] CatchUp catch_up(const MissedUpdates& missed) const;
  /// Element i combines updates kBlock * i + 1 to kBlock * (i + 1). Only complete blocks.
  [[nodiscard]] std::span<const MissedUpdates> blocks() const { return blocks_; }
  /// Combines the updates after the last complete block.
  [[nodiscard]] const MissedUpdates& last_block() const { return last_block_; }

 private:
  [[nodiscard]] MissedUpdates missed(const PastUpdate& update) const;

  OptimizerKind optimizer_;
  std::vector<PastUpdate> updates_;
  std::vector<MissedUpdates> blocks_;
  MissedUpdates last_block_;
};

/// The missed updates of some rows: table()[index()[i]] combines those of row i. Index 0 means
/// that the row has missed none. The result for a row depends on the history and on the updates
/// that the row has seen, not on the other rows in the plan.
class CatchUpPlan {
 public:
  /// Plans the rows of classes [S]. updated [R]: number of updates that each row has seen; row i
  /// is class first_class + i. Takes time O(S + number of updates / kBlock).
  void make(const UpdateHistory& history, std::span<const std::int32_t> updated,
            std::int64_t first_class, std::span<const std::int64_t> classes);

  [[nodiscard]] std::span<const std::uint32_t> index() const { return index_; }  ///< [S]
  [[nodiscard]] std::span<const CatchUp> table() const { return table_; }

  /// Returns the host memory of the index of S rows.
  [[nodiscard]] static std::size_t bytes(std::int64_t rows) {
    return static_cast<std::size_t>(rows) * sizeof(std::uint32_t);
  }

 private:
  std::vector<std::uint32_t> index_;
  std::vector<CatchUp> table_;
};

}  // namespace pfc
