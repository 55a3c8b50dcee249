// The updates that a worker's class centres have been through, and what each row has yet to catch
// up with (kernels/math/missed_updates.h). Host memory and host arithmetic on every device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/math/missed_updates.h"
#include "kernels/math/optimizer.h"

namespace pfc {

/// SGD's updates in order, the first one is number 1. 12 bytes an update; products of whole blocks
/// of them are kept too, so that a row that has missed a million costs a step no more than one that
/// has missed a hundred.
class UpdateHistory {
 public:
  static constexpr std::int32_t kBlock = 64;

  void add(const SgdOptions& update);
  void restore(std::span<const SgdOptions> updates);  ///< instead of all there were

  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(updates_.size()); }
  [[nodiscard]] std::span<const SgdOptions> updates() const { return updates_; }
  /// Of updates kBlock * i + 1 .. kBlock * (i + 1); those that are complete.
  [[nodiscard]] std::span<const MissedUpdates> blocks() const { return blocks_; }
  /// Of the updates after them.
  [[nodiscard]] const MissedUpdates& last_block() const { return last_block_; }

 private:
  std::vector<SgdOptions> updates_;
  std::vector<MissedUpdates> blocks_;
  MissedUpdates last_block_;
};

/// How some rows catch up: table()[index()[i]] is row i's. Index 0: it has missed nothing. A row's
/// numbers depend on the history and on what it has seen, not on the rows beside it.
class CatchUpPlan {
 public:
  /// updated [R]: how many updates each row has seen, row i being class first_class + i; classes
  /// [S]. Time O(S + number of updates / kBlock).
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
