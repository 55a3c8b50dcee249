// Every collective on every transport, for world sizes that do and do not divide the data, with
// inputs whose sums are exact in float32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <tuple>
#include <vector>

#include "tests/worker/comm/ranks.h"

namespace pfc {
namespace {

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

class Collectives : public ::testing::TestWithParam<std::tuple<Transport, int>> {
 protected:
  void on_ranks(const std::function<void(RankOnDevice)>& work) {
    on_devices(std::get<0>(GetParam()), world_size_, work);
  }

  const int world_size_ = std::get<1>(GetParam());
  const std::vector<std::size_t> sizes_ = {0, 1, 2, 7, 1000, 65'537, 700'001};
};

TEST_P(Collectives, AllGatherLiesInRankOrder) {
  on_ranks([&](RankOnDevice r) {
    for (const std::size_t n : sizes_) {
      const Floats in(r.ops, input(r.comm.rank(), 0, n));
      const Floats out(r.ops, std::vector<float>(n * static_cast<std::size_t>(world_size_), -1.f));
      r.comm.all_gather(in, out);
      const std::vector<float> values = out.values();
      for (int from = 0; from < world_size_; ++from) {
        const auto block = values.begin() + from * static_cast<std::ptrdiff_t>(n);
        ASSERT_EQ(std::vector<float>(block, block + static_cast<std::ptrdiff_t>(n)),
                  input(from, 0, n));
      }
    }
  });
}

TEST_P(Collectives, AllGatherTakesAnyType) {
  on_ranks([&](RankOnDevice r) {
    using Labels = OnDevice<std::int64_t>;
    const Labels label(r.ops, {(1ll << 40) + r.comm.rank()}, DType::kInt64);
    const Labels labels(r.ops, std::vector<std::int64_t>(static_cast<std::size_t>(world_size_)),
                        DType::kInt64);
    r.comm.all_gather(label, labels);
    for (int from = 0; from < world_size_; ++from) {
      ASSERT_EQ(labels.values()[static_cast<std::size_t>(from)], (1ll << 40) + from);
    }
  });
}

TEST_P(Collectives, AllReduceSums) {
  on_ranks([&](RankOnDevice r) {
    for (const std::size_t n : sizes_) {
      const Floats floats(r.ops, input(r.comm.rank(), 0, n));
      r.comm.all_reduce_sum(floats);
      const std::vector<float> values = floats.values();
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(values[i], sum_of_inputs(world_size_, i)) << i;
    }
  });
}

TEST_P(Collectives, ReduceScatterGivesEachItsPart) {
  on_ranks([&](RankOnDevice r) {
    for (const std::size_t n : sizes_) {
      const std::vector<float> before =
          input(r.comm.rank(), 0, n * static_cast<std::size_t>(world_size_));
      const Floats in(r.ops, before);
      const Floats out(r.ops, std::vector<float>(n));
      r.comm.reduce_scatter_sum(in, out);
      const std::vector<float> values = out.values();
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t place = n * static_cast<std::size_t>(r.comm.rank()) + i;
        ASSERT_EQ(values[i], sum_of_inputs(world_size_, place)) << i;
      }
      ASSERT_EQ(in.values(), before);
    }
  });
}

TEST_P(Collectives, BroadcastCopiesEachRootsBytes) {
  on_ranks([&](RankOnDevice r) {
    for (const std::size_t n : sizes_) {
      for (int root = 0; root < world_size_; ++root) {
        const Floats floats(r.ops, input(r.comm.rank(), 0, n));
        r.comm.broadcast(floats, root);
        ASSERT_EQ(floats.values(), input(root, 0, n));
      }
    }
  });
}

TEST_P(Collectives, BarrierHoldsUntilAllHaveCome) {
  std::atomic<int> arrived = 0;
  on_ranks([&](RankOnDevice r) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      r.comm.barrier();
      ASSERT_GE(arrived.load(), round * world_size_);
    }
  });
}

TEST_P(Collectives, CountsCallsAndBytes) {
  on_ranks([&](RankOnDevice r) {
    const Floats floats(r.ops, std::vector<float>(10));
    r.comm.all_reduce_sum(floats);
    r.comm.broadcast(floats, 0);
    r.comm.barrier();
    EXPECT_EQ(r.comm.counters().calls, 3u);
    EXPECT_EQ(r.comm.counters().bytes, 80u);
  });
}

TEST_P(Collectives, ManyMayBeUnderWayBeforeTheHostWaits) {
  on_ranks([&](RankOnDevice r) {
    const std::vector<float> mine = input(r.comm.rank(), 0, 1000);
    const Floats gathered(r.ops, std::vector<float>(1000 * static_cast<std::size_t>(world_size_)));
    const Floats part(r.ops, std::vector<float>(1000));
    const Floats floats(r.ops, mine);
    for (int round = 0; round < 30; ++round) {
      r.comm.all_gather(floats, gathered);        // what each brings ...
      r.comm.reduce_scatter_sum(gathered, part);  // ... comes back to it, once from every rank
      r.ops.copy(part, floats);
      r.comm.broadcast(floats, round % world_size_);
    }
    r.comm.throw_if_failed();
    ASSERT_FALSE(std::ranges::any_of(floats.values(), [](float x) { return std::isnan(x); }));
  });
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, Collectives,
                         ::testing::Combine(::testing::ValuesIn(transports()),
                                            ::testing::Values(1, 2, 3, 5)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "W" +
                                  std::to_string(std::get<1>(test.param));
                         });

/// Gloo's alone: NCCL chooses its own order.
class Gloo : public ::testing::TestWithParam<int> {
 protected:
  const int world_size_ = GetParam();
};

/// Values whose sum depends on the order.
std::vector<float> delicate_input(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::sin(static_cast<float>(i) * static_cast<float>(rank + 1));
  }
  return values;
}

// So they have the same bits on every rank and in every run, however they travel.
TEST_P(Gloo, SumsGoInRankOrder) {
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

TEST_P(Gloo, SeveralCommsWorkSideBySideInThreadsOfAProcess) {
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

TEST(GlooComm, DescribesItsTransport) {
  on_devices(gloo(), 2, [](RankOnDevice r) {
    EXPECT_EQ(r.comm.description(), "Gloo (TCP, 127.0.0.1)");
    r.comm.barrier();  // who leaves before its peer has connected fails it
  });
}

}  // namespace
}  // namespace pfc
