// Tests guarantees of Gloo only: NCCL chooses its own order of sums.
#include <gtest/gtest.h>
#include <sched.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/comm/inputs.h"
#include "tests/comm/ranks.h"

namespace pfc {
namespace {

class Gloo : public ::testing::TestWithParam<int> {
 protected:
  const int world_size_ = GetParam();
};

/// Returns values whose sum depends on the order.
std::vector<float> delicate_input(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::sin(static_cast<float>(i) * static_cast<float>(rank + 1));
  }
  return values;
}

// Because of this order, the bits are identical on every rank and in every run, whatever the
// timing.
TEST_P(Gloo, AddsInRankOrder) {
  constexpr std::size_t kCount = 60 * 5000;  // every world size divides it
  std::vector<float> expected = delicate_input(0, kCount);
  for (int r = 1; r < world_size_; ++r) {
    const std::vector<float> next = delicate_input(r, kCount);
    for (std::size_t i = 0; i < kCount; ++i) expected[i] += next[i];
  }
  on_devices(gloo(), world_size_, [&](RankOnDevice r) {
    const std::vector<float> mine = delicate_input(r.comm.rank(), kCount);
    const Floats large(r.ops, mine);
    const Floats small(r.ops, std::vector<float>(mine.begin(), mine.begin() + 1000));
    const Floats part(r.ops, std::vector<float>(kCount / static_cast<std::size_t>(world_size_)));
    r.comm.reduce_scatter_sum(large, part);
    r.comm.all_reduce_sum(large);
    r.comm.all_reduce_sum(small);
    const auto expect_bits = [](const std::vector<float>& found, const float* expected_bits) {
      EXPECT_EQ(std::memcmp(found.data(), expected_bits, found.size() * sizeof(float)), 0);
    };
    expect_bits(part.values(),
                expected.data() + part.values().size() * static_cast<std::size_t>(r.comm.rank()));
    expect_bits(large.values(), expected.data());
    expect_bits(small.values(), expected.data());
  });
}

TEST_P(Gloo, RunsSeveralCommsInThreadsOfOneProcess) {
  MemoryStore store;
  on_threads(world_size_, [&](int rank) {
    const auto train = make_host_comm(options_of(rank, world_size_, "train"), &store);
    const auto reduce = make_host_comm(options_of(rank, world_size_, "reduce"), &store);
    on_threads(2, [&](int which) {
      for (int round = 0; round < 20; ++round) {
        std::vector<float> values = input(rank, 0, which == 0 ? 50 : 50'000);
        const Shape shape{static_cast<std::int64_t>(values.size())};
        (which == 0 ? train : reduce)->all_reduce_sum({values.data(), shape});
        for (std::size_t i = 0; i < values.size(); ++i) {
          ASSERT_EQ(values[i], sum_of_inputs(world_size_, i));
        }
      }
    });
  });
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, Gloo, ::testing::Values(1, 2, 3, 5),
                         [](const auto& w) { return "W" + std::to_string(w.param); });

TEST(CollectivesOfOne, NeedNoStore) {
  const auto comm = make_host_comm(options_of(0, 1), nullptr);
  EXPECT_EQ(comm->size(), 1);
  EXPECT_EQ(comm->description(), "none (one worker)");
}

TEST(GlooComm, ConnectsProcesses) {
  Transport processes = gloo();
  processes.processes = true;
  on_devices(processes, 3, [](RankOnDevice r) {
    const Floats floats(r.ops, input(r.comm.rank(), 0, 1000));
    r.comm.all_reduce_sum(floats);
    const std::vector<float> sums = floats.values();
    for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(sums[i], sum_of_inputs(3, i));
    r.comm.barrier();
  });
}

TEST(GlooComm, HasThreadsThatDoNotPreemptOthers) {
  bool possible = ::sched_getscheduler(0) == SCHED_OTHER;
  std::thread([&] {
    const sched_param priority{};
    possible = possible && ::sched_setscheduler(0, SCHED_BATCH, &priority) == 0;
  }).join();
  if (!possible) GTEST_SKIP() << "this system does not let threads choose their policy";
  on_devices(gloo(), 2, [](RankOnDevice r) {
    r.comm.barrier();
    EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER);
    if (r.comm.rank() == 0) {
      int batch = 0;
      for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        batch += ::sched_getscheduler(std::stoi(task.path().filename())) == SCHED_BATCH ? 1 : 0;
      }
      EXPECT_EQ(batch, 4);  // one for each communicator
    }
    r.comm.barrier();
  });
}

TEST(GlooComm, DescribesItsTransport) {
  on_devices(gloo(), 2, [](RankOnDevice r) {
    EXPECT_EQ(r.comm.description(), "Gloo (TCP, 127.0.0.1)");
    // A rank that leaves while its peer is still connecting would make the peer fail.
    r.comm.barrier();
  });
}

}  // namespace
}  // namespace pfc
