#include "kernels/margin/update_history.h"

#include <algorithm>

namespace pfc {
namespace {

// Rows that have missed at most this many updates share table entries: one per number of updates.
constexpr std::uint32_t kRecent = 2048;

/// Combines a long sequence of missed updates from the history's blocks.
class LongAgo {
 public:
  explicit LongAgo(const UpdateHistory& history) : history_(history) {
    after_.push_back(history.last_block());
  }

  MissedUpdates since(std::int32_t seen) {
    const auto complete = static_cast<std::int32_t>(history_.blocks().size());
    const std::int32_t block = seen / UpdateHistory::kBlock;
    const std::int32_t end = std::min((block + 1) * UpdateHistory::kBlock, history_.count());
    MissedUpdates missed;
    for (std::int32_t i = seen; i < end; ++i) {
      missed = in_turn(missed, history_.missed(static_cast<std::size_t>(i)));
    }
    return block < complete ? in_turn(missed, after(complete - 1 - block)) : missed;
  }

 private:
  /// Combines all updates after a complete block that is followed by `newer` complete blocks.
  const MissedUpdates& after(std::int32_t newer) {
    const auto blocks = history_.blocks();
    while (after_.size() <= static_cast<std::size_t>(newer)) {
      after_.push_back(in_turn(blocks[blocks.size() - after_.size()], after_.back()));
    }
    return after_[static_cast<std::size_t>(newer)];
  }

  const UpdateHistory& history_;
  std::vector<MissedUpdates> after_;
};

}  // namespace

MissedUpdates UpdateHistory::missed(const PastUpdate& update) const {
  if (optimizer_ == OptimizerKind::kSgd) {
    return missed_update(SgdOptions{.lr = update.lr,
                                    .momentum = update.momentum_or_number,
                                    .weight_decay = update.weight_decay});
  }
  return missed_update(adamw_options(static_cast<double>(update.lr),
                                     static_cast<double>(update.weight_decay),
                                     static_cast<std::int64_t>(update.momentum_or_number)));
}

CatchUp UpdateHistory::catch_up(const MissedUpdates& missed) const {
  return optimizer_ == OptimizerKind::kSgd
             ? sgd_catch_up(missed)
             : adamw_catch_up(missed, static_cast<double>(AdamWOptions{}.eps));
}

void UpdateHistory::add(const PastUpdate& update) {
  updates_.push_back(update);
  last_block_ = in_turn(last_block_, missed(update));
  if (updates_.size() % kBlock != 0) return;
  blocks_.push_back(last_block_);
  last_block_ = {};
}

void UpdateHistory::restore(std::span<const PastUpdate> updates) {
  const std::vector<PastUpdate> kept(updates.begin(), updates.end());  // may be updates_ itself
  *this = UpdateHistory(optimizer_);
  for (const PastUpdate& update : kept) add(update);
}

void CatchUpPlan::make(const UpdateHistory& history, std::span<const std::int32_t> updated,
                       std::int64_t first_class, std::span<const std::int64_t> classes) {
  const std::int32_t count = history.count();
  index_.resize(classes.size());
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    index_[i] = static_cast<std::uint32_t>(
        count - updated[static_cast<std::size_t>(classes[i] - first_class)]);
    most = std::max(most, index_[i]);
  }
  table_.assign(1, {});
  MissedUpdates recent;
  for (std::uint32_t missed = 1; missed <= std::min(most, kRecent); ++missed) {
    const auto oldest = static_cast<std::size_t>(count) - missed;
    recent = in_turn(history.missed(oldest), recent);
    table_.push_back(history.catch_up(recent));
  }
  if (most <= kRecent) return;
  LongAgo long_ago(history);
  for (std::uint32_t& index : index_) {
    if (index <= kRecent) continue;
    table_.push_back(history.catch_up(long_ago.since(count - static_cast<std::int32_t>(index))));
    index = static_cast<std::uint32_t>(table_.size() - 1);
  }
}

}  // namespace pfc
