// Small workers whose memory outlives their generations, as threads of a test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/workers/keepers.h"
#include "tests/comm/ranks.h"
#include "tests/support/thread_comm.h"
#include "tests/worker/checkpoint/checkpoint_world.h"
#include "tests/worker/trained.h"
#include "worker/snapshot/snapshot_maker.h"
#include "worker/snapshot/snapshot_restore.h"

namespace pfc::testing {

/// Memory of the workers between generations, by rank.
using Processes = std::vector<std::shared_ptr<SnapshotStore>>;
inline Processes processes(int count) {
  Processes all;
  for (int i = 0; i < count; ++i) all.push_back(std::make_shared<SnapshotStore>());
  return all;
}

/// The Comms of one generation. They use Gloo over loopback, or pass data between threads.
class Comms {
 public:
  Comms(int workers, bool gloo) : meeting_(workers), workers_(workers), gloo_(gloo) {}
  [[nodiscard]] std::unique_ptr<Comm> make(int rank) {
    if (!gloo_) return std::make_unique<ThreadComm>(meeting_, rank);
    auto comm = make_host_comm(options_of(rank, workers_), &store_);
    comm->barrier();  // no rank leaves while others still connect
    return comm;
  }

 private:
  MemoryStore store_;
  Meeting meeting_;
  const int workers_;
  const bool gloo_;
};

struct WorldKeys {
  WorldOptions model{.classes = 23};
  Generation generation = 1;
  std::vector<std::string> hosts = {};  ///< by rank; empty: one host
  bool gloo = false;
};

inline SnapshotOptions snapshot_options(int rank, int workers, const WorldKeys& keys) {
  std::vector<std::string> hosts = keys.hosts;
  hosts.resize(static_cast<std::size_t>(workers));
  return {.membership = {.rank = rank, .world_size = workers, .generation = keys.generation},
          .keepers = keepers_of(hosts)};
}

/// Waits until all workers have the snapshot that was begun.
inline void wait_for_snapshot(SnapshotMaker& maker, const TrainingState& state, std::int64_t step) {
  const TimePoint start = Clock::now();
  while (maker.after_step(state, testing::trained_with(step, 10), {}) != step) {
    ASSERT_LT(seconds_since(start), 60) << "the snapshot of step " << step << " is not complete";
    std::this_thread::yield();
  }
}

/// Returns the number of updates until a step. They are fewer than the steps, as after a step whose
/// loss was not finite.
inline std::int64_t updates_of(std::int64_t step) { return step - 1; }

/// All workers take a snapshot of the state of `step`.
inline void take(const Processes& all, int step, const WorldKeys& keys = {}) {
  const int workers = static_cast<int>(all.size());
  Comms comms(workers, keys.gloo);
  on_threads(workers, [&](int rank) {
    const auto comm = comms.make(rank);
    SmallWorker worker(rank, workers, keys.model);
    worker.fill(step);
    worker.loss_scale.restore({.updates = updates_of(step)});
    SnapshotMaker maker(*all[static_cast<std::size_t>(rank)], *comm,
                        snapshot_options(rank, workers, keys));
    maker.after_step(worker.state(), testing::trained_with(step, 10), {.snapshot_request = 1});
    worker.fill(step + 1);  // training continues
    worker.loss_scale.restore({.updates = updates_of(step + 1)});
    wait_for_snapshot(maker, worker.state(), step);
  });
}

/// What a generation has restored from its workers' memory.
struct Outcome {
  std::string where;        ///< source of the state; empty: the state is not from memory
  std::string why_not;      ///< result of why_not_from_memory()
  std::uint64_t moved = 0;  ///< result of load_snapshot()
  std::uint64_t sent = 0;   ///< as counted by the Comms
};

/// Continues from memory. Expects the state of `step` with the same bits.
inline Outcome go_on(const Processes& all, int step, const WorldKeys& keys = {}) {
  const int workers = static_cast<int>(all.size());
  Comms comms(workers, keys.gloo);
  Outcome outcome;
  std::mutex mutex;
  on_threads(workers, [&](int rank) {
    const auto comm = comms.make(rank);
    SmallWorker worker(rank, workers, keys.model);
    worker.fill(77);
    SnapshotStore& store = *all[static_cast<std::size_t>(rank)];
    const SnapshotChoices choices = look_for_snapshots(store, keys.model.positions(), *comm);
    const std::string why_not = why_not_from_memory(choices, keys.model.positions(), 0);
    std::uint64_t moved = 0;
    const std::uint64_t before = comm->counters().sent_bytes;
    if (choices.newest_whole) {
      moved = load_snapshot(*choices.newest_whole, store, worker.state(), *comm);
      EXPECT_EQ(choices.newest_whole->id.trained.step, step);
      EXPECT_EQ(worker.differences(step), 0) << "rank " << rank << " of " << workers;
      EXPECT_EQ(worker.loss_scale.state().updates, updates_of(step));
      EXPECT_EQ(worker.head.changes, 1);
    }
    const std::lock_guard lock(mutex);
    outcome.sent += comm->counters().sent_bytes - before;
    outcome.moved = moved;
    outcome.why_not = why_not;
    if (choices.newest_whole) outcome.where = where_from(*choices.newest_whole);
  });
  return outcome;
}

}  // namespace pfc::testing
