// Every collective, for world sizes that do and do not divide the data, with inputs whose sums are
// exact in float32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/worker/comm/ranks.h"

namespace pfc {
namespace {

Tensor tensor(std::vector<float>& values) {
  return {values.data(), Shape{static_cast<std::int64_t>(values.size())}};
}

/// A small whole number that depends on rank and place.
float input(int rank, std::size_t i) {
  return static_cast<float>((i * 7 + i / 13) % 101) + 1000.f * static_cast<float>(rank);
}

std::vector<float> input(int rank, std::size_t begin, std::size_t end) {
  std::vector<float> values;
  for (std::size_t i = begin; i < end; ++i) values.push_back(input(rank, i));
  return values;
}

float sum_of_inputs(int world_size, std::size_t i) {
  float sum = 0;
  for (int r = 0; r < world_size; ++r) sum += input(r, i);
  return sum;
}

class Collectives : public ::testing::TestWithParam<int> {
 protected:
  const int world_size_ = GetParam();
  const std::vector<std::size_t> sizes_ = {0, 1, 2, 7, 1000, 65'537, 700'001};
};

TEST_P(Collectives, AllGatherLiesInRankOrder) {
  on_comms(world_size_, [&](Comm& comm) {
    for (const std::size_t n : sizes_) {
      std::vector<float> in = input(comm.rank(), 0, n);
      std::vector<float> out(n * static_cast<std::size_t>(world_size_), -1.f);
      comm.all_gather(tensor(in), tensor(out));
      for (int r = 0; r < world_size_; ++r) {
        const auto block = out.begin() + r * static_cast<std::ptrdiff_t>(n);
        ASSERT_EQ(std::vector<float>(block, block + static_cast<std::ptrdiff_t>(n)),
                  input(r, 0, n));
      }
    }
  });
}

TEST_P(Collectives, AllGatherTakesAnyType) {
  on_comms(world_size_, [&](Comm& comm) {
    std::int64_t label = (1ll << 40) + comm.rank();
    std::vector<std::int64_t> labels(static_cast<std::size_t>(world_size_));
    comm.all_gather(Tensor(&label, DType::kInt64, Shape{1}),
                    Tensor(labels.data(), DType::kInt64, Shape{world_size_}));
    for (int r = 0; r < world_size_; ++r) {
      ASSERT_EQ(labels[static_cast<std::size_t>(r)], (1ll << 40) + r);
    }
  });
}

TEST_P(Collectives, AllReduceSums) {
  on_comms(world_size_, [&](Comm& comm) {
    for (const std::size_t n : sizes_) {
      std::vector<float> values = input(comm.rank(), 0, n);
      comm.all_reduce_sum(tensor(values));
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(values[i], sum_of_inputs(world_size_, i)) << i;
    }
  });
}

TEST_P(Collectives, ReduceScatterGivesEachItsPart) {
  on_comms(world_size_, [&](Comm& comm) {
    for (const std::size_t n : sizes_) {
      std::vector<float> in = input(comm.rank(), 0, n * static_cast<std::size_t>(world_size_));
      const std::vector<float> in_before = in;
      std::vector<float> out(n);
      comm.reduce_scatter_sum(tensor(in), tensor(out));
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t place = n * static_cast<std::size_t>(comm.rank()) + i;
        ASSERT_EQ(out[i], sum_of_inputs(world_size_, place)) << i;
      }
      ASSERT_EQ(in, in_before);
    }
  });
}

TEST_P(Collectives, BroadcastCopiesEachRootsBytes) {
  on_comms(world_size_, [&](Comm& comm) {
    for (const std::size_t n : sizes_) {
      for (int root = 0; root < world_size_; ++root) {
        std::vector<float> values = input(comm.rank(), 0, n);
        comm.broadcast(tensor(values), root);
        ASSERT_EQ(values, input(root, 0, n));
      }
    }
  });
}

TEST_P(Collectives, BarrierHoldsUntilAllHaveCome) {
  std::atomic<int> arrived = 0;
  on_comms(world_size_, [&](Comm& comm) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      comm.barrier();
      ASSERT_GE(arrived.load(), round * world_size_);
    }
  });
}

/// Values whose sum depends on the order.
std::vector<float> delicate_input(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::sin(static_cast<float>(i) * static_cast<float>(rank + 1));
  }
  return values;
}

// So they have the same bits on every rank and in every run, however they travel.
TEST_P(Collectives, SumsGoInRankOrder) {
  constexpr std::size_t kCount = 60 * 5000;  // every world size divides it
  std::vector<float> expected = delicate_input(0, kCount);
  for (int r = 1; r < world_size_; ++r) {
    const std::vector<float> next = delicate_input(r, kCount);
    for (std::size_t i = 0; i < kCount; ++i) expected[i] += next[i];
  }
  on_comms(world_size_, [&](Comm& comm) {
    std::vector<float> large = delicate_input(comm.rank(), kCount);
    std::vector<float> small(large.begin(), large.begin() + 1000);
    std::vector<float> part(kCount / static_cast<std::size_t>(world_size_));
    comm.reduce_scatter_sum(tensor(large), tensor(part));
    comm.all_reduce_sum(tensor(large));
    comm.all_reduce_sum(tensor(small));
    const float* own = expected.data() + part.size() * static_cast<std::size_t>(comm.rank());
    EXPECT_EQ(std::memcmp(part.data(), own, part.size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(large.data(), expected.data(), kCount * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(small.data(), expected.data(), small.size() * sizeof(float)), 0);
  });
}

TEST_P(Collectives, CountsCallsAndBytes) {
  on_comms(world_size_, [&](Comm& comm) {
    std::vector<float> values(10);
    comm.all_reduce_sum(tensor(values));
    comm.broadcast(tensor(values), 0);
    comm.barrier();
    EXPECT_EQ(comm.counters().calls, 3u);
    EXPECT_EQ(comm.counters().bytes, 80u);
  });
}

TEST_P(Collectives, SeveralCommsWorkSideBySideInThreadsOfAProcess) {
  MemoryStore store;
  on_threads(world_size_, [&](int rank) {
    const auto train = make_host_comm(options_of(rank, world_size_, "train"), &store);
    const auto reduce = make_host_comm(options_of(rank, world_size_, "reduce"), &store);
    on_threads(2, [&](int which) {
      for (int round = 0; round < 20; ++round) {
        std::vector<float> values = input(rank, 0, which == 0 ? 50 : 50'000);
        (which == 0 ? train : reduce)->all_reduce_sum(tensor(values));
        for (std::size_t i = 0; i < values.size(); ++i) {
          ASSERT_EQ(values[i], sum_of_inputs(world_size_, i));
        }
      }
    });
  });
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, Collectives, ::testing::Values(1, 2, 3, 5),
                         [](const auto& w) { return "W" + std::to_string(w.param); });

TEST(CollectivesOfOne, NeedNoStore) {
  const auto comm = make_host_comm(options_of(0, 1), nullptr);
  EXPECT_EQ(comm->size(), 1);
  EXPECT_EQ(comm->description(), "none (one worker)");
}

TEST(GlooComm, DescribesItsTransport) {
  on_comms(2, [](Comm& comm) {
    EXPECT_EQ(comm.description(), "Gloo (TCP, 127.0.0.1)");
    comm.barrier();  // who leaves before its peer has connected fails it
  });
}

}  // namespace
}  // namespace pfc
