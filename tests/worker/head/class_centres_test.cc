#include "worker/head/class_centres.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/make_ops.h"

namespace pfc {
namespace {

class Centres : public ::testing::Test {
 protected:
  std::vector<float> initial(RowRange shard, std::int64_t dimension, std::uint64_t seed = 1) {
    ClassCentres centres(*ops_, shard, {.dimension = dimension, .seed = seed});
    std::vector<float> host(static_cast<std::size_t>(shard.size() * dimension));
    ops_->copy_to_host(host.data(), centres.table().weight);
    return host;
  }
  std::unique_ptr<Ops> ops_ = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 2});
};

TEST_F(Centres, StartTheSameForAnyNumberOfWorkers) {
  const std::vector<float> whole = initial({0, 1000}, 30);
  for (const int world_size : {2, 3, 7}) {
    std::vector<float> together;
    for (int rank = 0; rank < world_size; ++rank) {
      const std::vector<float> part = initial(shard_of(1000, rank, world_size), 30);
      together.insert(together.end(), part.begin(), part.end());
    }
    EXPECT_EQ(together, whole) << world_size;
  }
  EXPECT_NE(initial({0, 1000}, 30, 2), whole);
}

TEST_F(Centres, StartNormallyDistributedWithDeviationOneHundredth) {
  const std::vector<float> x = initial({0, 5000}, 64);
  double sum = 0, squares = 0, fourth = 0;
  for (const float value : x) {
    const double z = static_cast<double>(value) / 0.01;
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
  }
  const auto n = static_cast<double>(x.size());
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
}

TEST_F(Centres, KeepASecondMomentForAdamWOnly) {
  EXPECT_FALSE(ClassCentres(*ops_, {0, 10}, {.dimension = 8}).table().second);
  EXPECT_TRUE(ClassCentres(*ops_, {0, 10}, {.dimension = 8, .optimizer = OptimizerKind::kAdamW})
                  .table()
                  .second);
}

}  // namespace
}  // namespace pfc
