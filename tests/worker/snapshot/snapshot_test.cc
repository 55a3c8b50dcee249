// Tests snapshots of small workers: taking, losing and restoring them.
#include "worker/snapshot/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/worker/snapshot/snapshot_world.h"

namespace pfc {
namespace {

using testing::go_on;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::processes;
using testing::Processes;
using testing::take;
using testing::WorldKeys;

constexpr std::uint64_t kRow = 6 * 4 * 2 + 4;  // centre, momentum, and number of updates seen
constexpr std::uint64_t kHeader = 56 + sizeof(LossState);  // with four counts and the loss scale

/// Returns the processes of the next generation, which has `workers`. If there are fewer workers
/// than before, ranks 1, 3, 5 ... end first. If there are more, the additional processes are new.
Processes next_generation(const Processes& before, int workers) {
  Processes after = before;
  for (int lost = static_cast<int>(before.size()) - workers, at = 1; lost > 0; --lost, at += 2) {
    if (at >= static_cast<int>(before.size())) at = 0;
    after[static_cast<std::size_t>(at)] = nullptr;
  }
  std::erase(after, nullptr);
  while (static_cast<int>(after.size()) < workers) {
    after.push_back(std::make_shared<SnapshotStore>());
  }
  return after;
}

TEST(Snapshots, ContinueFromAnyWorldSizeToAnyOther) {
  for (const int from : {1, 2, 3, 4, 6, 8, 10}) {
    for (const int to : {1, 2, 3, 4, 6, 8, 10}) {
      SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to));
      const Processes before = processes(from);
      take(before, 5);
      const Outcome outcome = go_on(next_generation(before, to), 5, {.generation = 2});
      const bool enough = 2 * to >= from;  // whether one of every two neighbours is left
      EXPECT_EQ(outcome.why_not.empty(), enough) << outcome.why_not;
      EXPECT_EQ(!outcome.where.empty(), enough);
      EXPECT_EQ(outcome.moved, outcome.sent);
    }
  }
}

TEST(Snapshots, KeepAdamWsSecondMoments) {
  const WorldKeys adamw{.model = {.classes = 23, .optimizer = OptimizerKind::kAdamW}};
  const Processes before = processes(3);
  take(before, 5, adamw);
  EXPECT_FALSE(go_on(next_generation(before, 2), 5, adamw).where.empty());
}

TEST(Snapshots, KeepTheNeighboursOfClasses) {
  const WorldKeys hard{.model = {.classes = 23, .neighbours = 3}};
  const Processes before = processes(3);
  take(before, 5, hard);
  EXPECT_FALSE(go_on(next_generation(before, 2), 5, hard).where.empty());
}

TEST(Snapshots, KeepTheAveragesOfTheBackbone) {
  const WorldKeys averaged{.model = {.classes = 23, .average = true}};
  const Processes before = processes(3);
  take(before, 5, averaged);
  EXPECT_FALSE(go_on(next_generation(before, 2), 5, averaged).where.empty());
}

TEST(Snapshots, AreCompleteForWorkersWithoutRows) {
  const WorldKeys few{.model = {.classes = 3}};
  const Processes before = processes(6);
  take(before, 5, few);
  Processes after(before.begin(), before.begin() + 4);  // the other workers had no rows
  EXPECT_FALSE(go_on(after, 5, few).where.empty());
}

TEST(Snapshots, RestoreALostRankFromItsNeighbour) {
  Processes workers = processes(4);
  take(workers, 5, {.gloo = true});
  workers[2] = std::make_shared<SnapshotStore>();
  const Outcome outcome = go_on(workers, 5, {.generation = 2, .gloo = true});
  EXPECT_EQ(outcome.where,
            "step 5, 3 of 4 parts from their own worker, 1 from the neighbour that kept a copy");
  // Rank 2 of 4 has 6 of the 23 rows. The backbone has 64 weights and momenta, and 16 statistics; 5
  // updates were made.
  const std::uint64_t backbone = (64 + 64 + 16) * 4 + 5 * 12;
  EXPECT_GE(outcome.moved, 6 * kRow + backbone);
  EXPECT_LE(outcome.moved, 6 * kRow + backbone + kHeader) << "more was sent than rows and backbone";
  EXPECT_EQ(outcome.moved, outcome.sent);
}

TEST(Snapshots, RestoreALostHost) {
  const WorldKeys two_hosts{.hosts = {"a", "a", "b", "b"}};
  for (const std::size_t lost : {0u, 2u}) {
    Processes workers = processes(4);
    take(workers, 5, two_hosts);
    workers[lost] = std::make_shared<SnapshotStore>();
    workers[lost + 1] = std::make_shared<SnapshotStore>();
    EXPECT_FALSE(go_on(workers, 5, two_hosts).where.empty());
    workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(lost),
                  workers.begin() + static_cast<std::ptrdiff_t>(lost) + 2);
    EXPECT_FALSE(go_on(workers, 5, {.hosts = {"a", "a"}}).where.empty());
  }
}

TEST(Snapshots, ReportRowsThatNoWorkerHas) {
  Processes workers = processes(4);
  take(workers, 5);
  workers[1] = workers[2] = nullptr;
  std::erase(workers, nullptr);
  const Outcome outcome = go_on(workers, 5);
  EXPECT_EQ(outcome.where, "");
  EXPECT_EQ(outcome.why_not,
            "the copies in memory of step 5 lack the rows of rank 1, which no worker has");
}

TEST(Snapshots, AreEmptyBeforeTheFirstSnapshot) {
  const Outcome outcome = go_on(processes(2), 0);
  EXPECT_EQ(outcome.where, "");
  EXPECT_EQ(outcome.why_not, "");
}

TEST(Snapshots, RestoreTheNewestOfSeveralSteps) {
  Processes workers = processes(3);
  for (const int step : {5, 6, 7}) take(workers, step);
  EXPECT_THAT(go_on(workers, 7).where, HasSubstr("step 7"));
}

TEST(Snapshots, AreTakenAgainAfterTheJobHasContinuedFromThem) {
  Processes workers = processes(4);
  take(workers, 5);
  workers = next_generation(workers, 3);
  go_on(workers, 5, {.generation = 2});
  take(workers, 8, {.generation = 2});
  workers = next_generation(workers, 4);
  go_on(workers, 8, {.generation = 3});
}

TEST(Snapshots, MoveOnlyRowsThatChangeTheirOwner) {
  // Five hosts have two workers each. The second and the fourth host are lost, and a new one is
  // added.
  const WorldKeys ten{.model = {.classes = 997},
                      .hosts = {"a", "a", "b", "b", "c", "c", "d", "d", "e", "e"},
                      .gloo = true};
  const Processes before = processes(10);
  take(before, 5, ten);
  const Processes six{before[0], before[1], before[4], before[5], before[8], before[9]};
  const std::vector<int> old_ranks{0, 1, 4, 5, 8, 9};
  const std::vector<Rank> keepers = keepers_of(ten.hosts);
  std::uint64_t rows = 0;
  for (std::int64_t row = 0; row < 997; ++row) {  // the expected number, row by row
    for (int rank = 0; rank < 6; ++rank) {
      if (!shard_of(997, rank, 6).contains(row)) continue;
      const int was = old_ranks[static_cast<std::size_t>(rank)];
      const int copy = kept_by(keepers, was);
      rows += shard_of(997, was, 10).contains(row) || shard_of(997, copy, 10).contains(row) ? 0 : 1;
    }
  }
  const WorldKeys fewer{
      .model = ten.model, .generation = 2, .hosts = {"a", "a", "c", "c", "e", "e"}, .gloo = true};
  const Outcome shrunk = go_on(six, 5, fewer);
  EXPECT_EQ(shrunk.moved, rows * kRow) << "every worker already has the backbone";
  EXPECT_EQ(shrunk.moved, shrunk.sent);
  RecordProperty("moved_10_to_6", static_cast<int>(shrunk.moved));

  take(six, 9, fewer);
  Processes eight = six;
  eight.push_back(std::make_shared<SnapshotStore>());
  eight.push_back(std::make_shared<SnapshotStore>());
  const WorldKeys more{.model = ten.model,
                       .generation = 3,
                       .hosts = {"a", "a", "c", "c", "e", "e", "f", "f"},
                       .gloo = true};
  const std::vector<Rank> keepers_of_six = keepers_of(fewer.hosts);
  rows = 0;
  for (std::int64_t row = 0; row < 997; ++row) {
    for (int rank = 0; rank < 8; ++rank) {
      if (!shard_of(997, rank, 8).contains(row)) continue;
      const bool has = rank < 6 && (shard_of(997, rank, 6).contains(row) ||
                                    shard_of(997, kept_by(keepers_of_six, rank), 6).contains(row));
      rows += has ? 0 : 1;
    }
  }
  const Outcome grown = go_on(eight, 9, more);
  const std::uint64_t backbone = (64 + 64 + 16) * 4 + 9 * 12;
  EXPECT_GE(grown.moved, rows * kRow + 2 * backbone);
  EXPECT_LE(grown.moved, rows * kRow + 2 * (backbone + kHeader));
  EXPECT_EQ(grown.moved, grown.sent);
  RecordProperty("moved_6_to_8", static_cast<int>(grown.moved));
}

TEST(Snapshots, UseThePlannedMemory) {
  const WorldKeys keys{.model = {.classes = 1000}};
  const Processes workers = processes(3);
  for (const int step : {5, 6, 7}) take(workers, step, keys);
  const SmallWorker worker(0, 3, keys.model);
  const std::uint64_t table = 334 * 6 * 4;
  const std::size_t planned =
      snapshots_bytes({.centres = table, .momentum = table, .updated = 334 * 4},
                      {.weights = 64 * 4, .state = 16 * 4}, 64 * 4, 7, 3);
  EXPECT_LE(workers[0]->bytes(), planned);
  EXPECT_GE(workers[0]->bytes() + 334 * kRow, planned) << "the neighbour's shard may be smaller";
  // Shards of another size need other memory, and the larger memory is freed.
  take({workers[0]}, 8, keys);
  take({workers[0]}, 9, keys);
  take(workers, 10, keys);
  take(workers, 11, keys);
  EXPECT_LE(workers[0]->bytes(), planned + 2 * 11 * 12);
}

}  // namespace
}  // namespace pfc
