#include "worker/snapshot/snapshot_choice.h"

#include <algorithm>
#include <functional>
#include <set>

namespace pfc {
namespace {

SnapshotChoice holders_of(const SnapshotId& id, std::span<const HeldSnapshots> held) {
  SnapshotChoice choice{.id = id,
                        .parts = std::vector<Holders>(static_cast<std::size_t>(id.world_size)),
                        .shared = {}};
  const auto set = [&](std::int64_t part, Rank Holders::*holder, Rank rank) {
    if (part >= 0 && part < id.world_size)
      choice.parts[static_cast<std::size_t>(part)].*holder = rank;
  };
  for (std::size_t rank = 0; rank < held.size(); ++rank) {
    for (const Held& h : held[rank]) {
      if (h.id != id) continue;
      set(h.own, &Holders::own, static_cast<Rank>(rank));
      set(h.copy, &Holders::copy, static_cast<Rank>(rank));
      if (h.shared != 0) choice.shared.push_back(static_cast<Rank>(rank));
    }
  }
  return choice;
}

}  // namespace

HeldSnapshots held_by(const SnapshotStore& store) {
  HeldSnapshots held;
  for (std::size_t i = 0; i < held.size(); ++i) {
    const Snapshot& s = store.all()[i];
    if (!s.has_own) continue;
    held[i] = {.id = s.id,
               .own = s.own.rank,
               .copy = s.has_copy ? s.copy.rank : -1,
               .shared = s.has_shared ? 1 : 0};
  }
  return held;
}

std::vector<Rank> SnapshotChoice::lost(const ClassPositions& positions) const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < id.world_size; ++rank) {
    const Holders& part = parts[static_cast<std::size_t>(rank)];
    const bool rows = positions.shard(rank, static_cast<int>(id.world_size)).size() > 0;
    if (rows && part.own < 0 && part.copy < 0) ranks.push_back(rank);
  }
  return ranks;
}

SnapshotChoices choose_snapshot(std::span<const HeldSnapshots> held,
                                const ClassPositions& positions) {
  std::set<SnapshotId, std::greater<>> ids;
  for (const HeldSnapshots& worker : held) {
    for (const Held& h : worker) {
      if (h.id.trained.images > 0) ids.insert(h.id);
    }
  }
  SnapshotChoices choices;
  for (const SnapshotId& id : ids) {
    SnapshotChoice choice = holders_of(id, held);
    if (!choices.newest) choices.newest = choice;
    if (!choice.whole(positions)) continue;
    choices.newest_whole = std::move(choice);
    break;
  }
  return choices;
}

std::vector<Move> plan_moves(const SnapshotChoice& choice, const ClassPositions& positions,
                             int world_size) {
  std::vector<Move> moves;
  for (Rank to = 0; to < world_size; ++to) {
    for (Rank part = 0; part < choice.id.world_size; ++part) {
      const RowRange rows =
          common_rows(positions.shard(to, world_size),
                      positions.shard(part, static_cast<int>(choice.id.world_size)));
      if (rows.size() <= 0) continue;
      const Holders& holders = choice.parts[static_cast<std::size_t>(part)];
      const bool here = holders.own == to || holders.copy == to;
      const Rank from = here ? to : holders.own >= 0 ? holders.own : holders.copy;
      moves.push_back({.from = from, .to = to, .part = part, .rows = rows});
    }
  }
  return moves;
}

std::string where_from(const SnapshotChoice& choice) {
  const auto parts = std::ssize(choice.parts);
  const auto own = std::ranges::count_if(choice.parts, [](const Holders& h) { return h.own >= 0; });
  const auto copies = std::ranges::count_if(
      choice.parts, [](const Holders& h) { return h.own < 0 && h.copy >= 0; });
  std::string text = "step " + std::to_string(choice.id.trained.step) + ", " + std::to_string(own) +
                     " of " + std::to_string(parts) + " parts from their own worker";
  if (copies > 0) text += ", " + std::to_string(copies) + " from the neighbour that kept a copy";
  return text;
}

}  // namespace pfc
