// Tests every collective on every transport, for world sizes that do and do not divide the data,
// with inputs whose sums are exact in float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "tests/comm/inputs.h"
#include "tests/comm/ranks.h"

namespace pfc {
namespace {

class Collectives : public ::testing::TestWithParam<std::tuple<Transport, int>> {
 protected:
  void SetUp() override {
    const std::string why_not = std::get<0>(GetParam()).why_not();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
  }
  void on_ranks(const std::function<void(RankOnDevice)>& work) {
    on_devices(std::get<0>(GetParam()), world_size_, work);
  }

  const int world_size_ = std::get<1>(GetParam());
  const std::vector<std::size_t> sizes_ = {0, 1, 2, 7, 1000, 65'537, 700'001};
};

TEST_P(Collectives, AllGatherIsInRankOrder) {
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

TEST_P(Collectives, AllGatherAcceptsAnyType) {
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

TEST_P(Collectives, ReduceScatterReturnsEachRanksSlice) {
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

TEST_P(Collectives, AllToAllSendsEachRankItsBlock) {
  on_ranks([&](RankOnDevice r) {
    const auto workers = static_cast<std::size_t>(world_size_);
    const auto own = static_cast<std::size_t>(r.comm.rank());
    for (const std::size_t n : sizes_) {
      const std::vector<float> before = input(r.comm.rank(), 0, n * workers);
      const Floats in(r.ops, before);
      const Floats out(r.ops, std::vector<float>(n * workers, -1.f));
      r.comm.all_to_all(in, out);
      const std::vector<float> values = out.values();
      for (int from = 0; from < world_size_; ++from) {
        const auto block = values.begin() + from * static_cast<std::ptrdiff_t>(n);
        ASSERT_EQ(std::vector<float>(block, block + static_cast<std::ptrdiff_t>(n)),
                  input(from, own * n, (own + 1) * n));
      }
      ASSERT_EQ(in.values(), before);
    }
  });
}

TEST_P(Collectives, AllToAllRejectsUnequalBlocks) {
  on_ranks([&](RankOnDevice r) {
    const Floats in(r.ops, std::vector<float>(6)), out(r.ops, std::vector<float>(5));
    EXPECT_THROW(r.comm.all_to_all(in, out), std::logic_error);
    r.comm.barrier();  // a rank that leaves early would make a connecting peer fail
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

TEST_P(Collectives, BarrierWaitsForAllRanks) {
  testing::SharedCount arrived;
  on_ranks([&](RankOnDevice r) {
    for (int round = 1; round <= 20; ++round) {
      ++*arrived;
      r.comm.barrier();
      ASSERT_GE((*arrived).load(), round * world_size_);
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

TEST_P(Collectives, CountsBytesSentByThisWorker) {
  constexpr std::size_t kFloats = 12'000;  // 48,000 bytes, divisible by 2, 3 and 4 workers
  on_ranks([&](RankOnDevice r) {
    const auto peers = static_cast<std::size_t>(world_size_ - 1);
    const Floats floats(r.ops, std::vector<float>(kFloats));
    const Floats received(r.ops, std::vector<float>(kFloats));
    r.comm.all_reduce_sum(floats);
    EXPECT_EQ(r.comm.counters().sent_bytes, 2 * peers * 4 * kFloats / (peers + 1));
    r.comm.all_to_all(floats, received);
    EXPECT_EQ(r.comm.counters().sent_bytes, 3 * peers * 4 * kFloats / (peers + 1));
  });
}

TEST_P(Collectives, CanBeQueuedManyTimesBeforeTheHostWaits) {
  on_ranks([&](RankOnDevice r) {
    const std::vector<float> mine = input(r.comm.rank(), 0, 1000);
    const Floats gathered(r.ops, std::vector<float>(1000 * static_cast<std::size_t>(world_size_)));
    const Floats swapped(r.ops, gathered.values());
    const Floats part(r.ops, std::vector<float>(1000));
    const Floats floats(r.ops, mine);
    for (int round = 0; round < 30; ++round) {
      r.comm.all_gather(floats, gathered);
      // Each rank gets its own input, added up once for each rank.
      r.comm.reduce_scatter_sum(gathered, part);
      r.comm.all_to_all(gathered, swapped);
      r.ops.copy(part, floats);
      r.comm.broadcast(floats, round % world_size_);
    }
    r.comm.throw_if_failed();
    ASSERT_FALSE(std::ranges::any_of(floats.values(), [](float x) { return std::isnan(x); }));
  });
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, Collectives,
                         ::testing::Combine(::testing::ValuesIn(transports()),
                                            ::testing::ValuesIn(world_sizes())),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "W" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace pfc
