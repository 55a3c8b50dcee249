#include "worker/snapshot/snapshot_maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "common/error.h"
#include "tests/support/error_message.h"
#include "tests/worker/snapshot/snapshot_world.h"

namespace pfc {
namespace {

using testing::go_on;
using ::testing::HasSubstr;
using testing::processes;
using testing::Processes;
using testing::snapshot_options;
using testing::take;
using testing::wait_for_snapshot;

/// A single worker, its state and its snapshots.
class SnapshotMakerOfOneWorker : public ::testing::Test {
 protected:
  SnapshotMakerOfOneWorker() { worker_.fill(5); }
  [[nodiscard]] SnapshotMaker maker(double seconds) {
    SnapshotOptions options = snapshot_options(0, 1, {});
    options.seconds = seconds;
    return {store_, *comm_, options};
  }
  [[nodiscard]] static std::int64_t request(const SnapshotMaker& maker) {
    WorkerSignals mine;
    maker.fill(mine);
    return mine.snapshot_request;
  }

  SnapshotStore store_;
  std::unique_ptr<Comm> comm_ = make_host_comm({}, nullptr);
  SmallWorker worker_{0, 1};
};

TEST_F(SnapshotMakerOfOneWorker, RequestsTheFirstSnapshotImmediatelyAndThenByTime) {
  SnapshotMaker slow = maker(1e6);
  EXPECT_EQ(request(slow), 1);
  slow.after_step(worker_.state(), testing::trained_with(5, 10), {.snapshot_request = 1});
  wait_for_snapshot(slow, worker_.state(), 5);
  EXPECT_EQ(request(slow), 0);
}

TEST_F(SnapshotMakerOfOneWorker, IgnoresRequestsMadeBeforeTheLastSnapshot) {
  SnapshotMaker fast = maker(1e-9);
  fast.after_step(worker_.state(), testing::trained_with(5, 10), {.snapshot_request = 1});
  wait_for_snapshot(fast, worker_.state(), 5);
  EXPECT_EQ(fast.after_step(worker_.state(), testing::trained_with(6, 10), {.snapshot_request = 1}),
            5);
  EXPECT_EQ(fast.after_step(worker_.state(), testing::trained_with(7, 10), {}), 5);
  EXPECT_EQ(request(fast), 2);
  fast.after_step(worker_.state(), testing::trained_with(8, 10), {.snapshot_request = 2});
  wait_for_snapshot(fast, worker_.state(), 8);
}

TEST_F(SnapshotMakerOfOneWorker, KeepsTheStateWhileTrainingContinues) {
  {
    SnapshotMaker one = maker(1);
    one.after_step(worker_.state(), testing::trained_with(5, 10), {.snapshot_request = 1});
    worker_.fill(6);
    wait_for_snapshot(one, worker_.state(), 5);
  }
  SmallWorker fresh(0, 1);
  const SnapshotChoices found = look_for_snapshots(store_, fresh.options.positions(), *comm_);
  ASSERT_TRUE(found.newest_whole);
  EXPECT_EQ(load_snapshot(*found.newest_whole, store_, fresh.state(), *comm_), 0u);
  EXPECT_EQ(fresh.differences(5), 0);
}

TEST(SnapshotMaker, OnlyRankZeroRequestsSnapshots) {
  SnapshotStore store;
  testing::run_ranks(2, [&](Comm& comm) {
    SnapshotStore own;
    const SnapshotMaker maker(own, comm, snapshot_options(comm.rank(), 2, {}));
    WorkerSignals mine;
    maker.fill(mine);
    EXPECT_EQ(mine.snapshot_request, comm.rank() == 0 ? 1 : 0);
  });
}

/// Three workers take the snapshot of step 5 and begin that of step 6. Rank 1 calls `rank_one`
/// instead of taking part. The others must get an error.
void fail_in_the_middle(const Processes& workers, const std::function<void(Comm&)>& rank_one) {
  testing::WorldKeys keys;
  keys.gloo = true;
  take(workers, 5, keys);
  testing::Comms comms(3, true);
  std::atomic<int> failed = 0;
  on_threads(3, [&](int rank) {
    auto comm = comms.make(rank);
    if (rank == 1) {
      rank_one(*comm);
      comm.reset();
      return;
    }
    SmallWorker worker(rank, 3, keys.model);
    worker.fill(6);
    SnapshotMaker maker(*workers[static_cast<std::size_t>(rank)], *comm,
                        snapshot_options(rank, 3, keys));
    EXPECT_THROW(
        {
          maker.after_step(worker.state(), testing::trained_with(6, 10), {.snapshot_request = 1});
          wait_for_snapshot(maker, worker.state(), 6);
        },
        CommError);
    ++failed;
  });
  EXPECT_EQ(failed, 2);
}

TEST(SnapshotMaker, KeepsThePreviousSnapshotIfAWorkerIsLostDuringTheNext) {
  for (const bool in_the_rows : {false, true}) {
    Processes workers = processes(3);
    fail_in_the_middle(workers, [&](Comm& comm) {
      if (!in_the_rows) return;
      std::array<float, 16> statistics{};
      comm.broadcast(Tensor(statistics.data(), DType::kUInt8, {sizeof statistics}), 0);
    });
    workers[1] = std::make_shared<SnapshotStore>();
    EXPECT_EQ(go_on(workers, 5, {.generation = 2, .gloo = true}).where,
              "step 5, 2 of 3 parts from their own worker, 1 from the neighbour that kept a copy");
  }
}

/// Rank 0 begins a snapshot in which rank 1 does not take part, and calls `then` before it destroys
/// the maker.
void snapshot_of_one(
    SnapshotStore& store,
    const std::function<void(SnapshotMaker& maker, SmallWorker& worker, Comm& comm)>& then) {
  testing::Comms comms(2, true);
  std::atomic<bool> ended = false;
  on_threads(2, [&](int rank) {
    const auto comm = comms.make(rank);
    if (rank == 1) {
      while (!ended) std::this_thread::yield();
      return;
    }
    SmallWorker worker(0, 2, {.classes = 23});
    worker.fill(6);
    {
      SnapshotMaker maker(store, *comm, snapshot_options(0, 2, {}));
      maker.after_step(worker.state(), testing::trained_with(6, 10), {.snapshot_request = 1});
      then(maker, worker, *comm);
    }
    ended = true;
  });
}

TEST(SnapshotMaker, EndsImmediatelyWhenItIsAborted) {
  SnapshotStore store;
  snapshot_of_one(store, [](SnapshotMaker& maker, SmallWorker& worker, Comm& comm) {
    comm.abort("this generation has ended");
    EXPECT_THAT(
        testing::message_of<CommError>([&] { wait_for_snapshot(maker, worker.state(), 6); }),
        HasSubstr("this generation has ended"));
  });
  EXPECT_EQ(held_by(store)[1].shared + held_by(store)[0].shared, 1) << "of rank 0 only";
}

TEST(SnapshotMaker, DestructionDoesNotWaitForOtherWorkers) {
  SnapshotStore store;
  snapshot_of_one(store, [](SnapshotMaker&, SmallWorker&, Comm&) {});
}

}  // namespace
}  // namespace pfc
