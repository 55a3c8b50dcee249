#include "worker/snapshot/snapshot_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/worker/trained.h"

namespace pfc {
namespace {

using ::testing::ElementsAre;

constexpr ClassPositions kHundred{.classes = 100};

SnapshotId id_of(std::int64_t images, Generation generation = 1, std::int64_t world_size = 2) {
  return {.trained = testing::trained_with(images / 10, 10),
          .generation = generation,
          .world_size = world_size};
}

/// Returns what the workers hold if they form a ring and all have the complete snapshot.
std::vector<HeldSnapshots> ring(const SnapshotId& id) {
  std::vector<HeldSnapshots> all(static_cast<std::size_t>(id.world_size));
  for (std::int64_t rank = 0; rank < id.world_size; ++rank) {
    all[static_cast<std::size_t>(rank)][0] = {
        .id = id, .own = rank, .copy = (rank + id.world_size - 1) % id.world_size, .shared = 1};
  }
  return all;
}

TEST(SnapshotChoice, IsTheNewestCompleteSnapshot) {
  auto held = ring(id_of(50));
  held[0][1] = {.id = id_of(60), .own = 0, .copy = -1, .shared = 1};
  const SnapshotChoices choices = choose_snapshot(held, kHundred);
  EXPECT_EQ(choices.newest->id, id_of(60));
  EXPECT_THAT(choices.newest->lost(kHundred), ElementsAre(1));
  EXPECT_EQ(choices.newest_whole->id, id_of(50));
}

TEST(SnapshotChoice, NeedsNoReplicaIfAllWorkersArePresent) {
  auto held = ring(id_of(50));
  held[0][1] = {.id = id_of(60), .own = 0, .copy = -1, .shared = 1};
  held[1][1] = {.id = id_of(60), .own = 1, .copy = -1, .shared = 0};
  EXPECT_EQ(choose_snapshot(held, kHundred).newest_whole->id, id_of(60));
  held[0][1].shared = 0;
  EXPECT_EQ(choose_snapshot(held, kHundred).newest_whole->id, id_of(50))
      << "no worker has shared = 1";
}

TEST(SnapshotChoice, PrefersTheLaterGenerationForTheSameStep) {
  auto held = ring(id_of(50, 1));
  for (auto& worker : held) {
    worker[1] = worker[0];
    worker[1].id.generation = 2;
  }
  EXPECT_EQ(choose_snapshot(held, kHundred).newest_whole->id.generation, 2);
}

TEST(SnapshotChoice, IsEmptyIfNoWorkerHasASnapshot) {
  const std::vector<HeldSnapshots> nothing(3);
  EXPECT_FALSE(choose_snapshot(nothing, kHundred).newest);
  EXPECT_FALSE(choose_snapshot(nothing, kHundred).newest_whole);
}

TEST(SnapshotMoves, LeaveRowsOnTheirWorkersIfAllArePresent) {
  const auto held = ring(id_of(50, 1, 4));
  for (const Move& move : plan_moves(*choose_snapshot(held, kHundred).newest_whole, kHundred, 4)) {
    EXPECT_TRUE(move.stays());
  }
}

TEST(SnapshotMoves, CoverEveryRowOnceFromAWorkerThatHasIt) {
  const ClassPositions of_101{.classes = 101, .sample_unit = 4};
  for (const int from : {1, 2, 3, 5}) {
    const auto choice = *choose_snapshot(ring(id_of(50, 1, from)), of_101).newest_whole;
    for (const int to : {1, 2, 4, 5, 7}) {
      if (to < from) continue;  // holders are numbered by their current ranks
      std::vector<int> seen(101);
      for (const Move& move : plan_moves(choice, of_101, to)) {
        const Holders& part = choice.parts[static_cast<std::size_t>(move.part)];
        EXPECT_TRUE(move.from == part.own || move.from == part.copy);
        for (auto row = move.rows.begin; row < move.rows.end; ++row) {
          ++seen[static_cast<std::size_t>(row)];
          EXPECT_TRUE(of_101.shard(move.to, to).contains(row));
        }
      }
      EXPECT_THAT(seen, ::testing::Each(1));
    }
  }
}

TEST(SnapshotMoves, PreferALocalReplicaToTheNetwork) {
  auto held = ring(id_of(50));
  std::swap(held[0], held[1]);  // the ranks are exchanged, and each has a copy of the other
  for (const Move& move : plan_moves(*choose_snapshot(held, kHundred).newest_whole, kHundred, 2)) {
    EXPECT_TRUE(move.stays());
  }
}

}  // namespace
}  // namespace pfc
