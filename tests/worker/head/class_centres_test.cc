#include "worker/head/class_centres.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/make_ops.h"
#include "kernels/math/bfloat16.h"
#include "kernels/math/normal.h"
#include "kernels/math/philox.h"

namespace pfc {
namespace {

class Centres : public ::testing::Test {
 protected:
  std::vector<float> initial(RowRange shard, std::int64_t dimension, std::uint64_t seed = 1) {
    ClassCentres centres(*ops_, shard, {.dimension = dimension, .seed = seed});
    centres.draw(*ops_);
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

TEST_F(Centres, StartWithValuesOfTheirLabelAtAnyPosition) {
  const std::vector<float> by_label = initial({0, 100}, 30);
  const ClassPositions positions{.classes = 100, .sample_unit = 8, .seed = 4};
  ClassCentres centres(*ops_, {40, 72}, {.dimension = 30, .positions = positions, .seed = 1});
  centres.draw(*ops_);
  const float* row = centres.table().weight.f32();
  for (std::int64_t position = 40; position < 72; ++position, row += 30) {
    const auto expected = by_label.begin() + positions.label_at(position) * 30;
    EXPECT_TRUE(std::equal(row, row + 30, expected)) << position;
  }
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

// This makes the centres the same in every start of a job and in every version of pfc.
TEST_F(Centres, StartAsAFunctionOfSeedClassAndElement) {
  constexpr std::int64_t kDimension = 31, kFirst = 1'000'000'007;
  const RowRange shard{kFirst, kFirst + 5};
  ClassCentres centres(
      *ops_, shard,
      {.dimension = kDimension, .bias = true, .precision = CentrePrecision::kBf16, .seed = 7});
  centres.draw(*ops_);
  std::vector<BFloat16> rows(static_cast<std::size_t>(shard.size() * kDimension));
  ops_->copy_to_host(rows.data(), centres.table().weight);
  std::size_t next = 0;
  for (std::int64_t c = shard.begin; c < shard.end; ++c) {
    for (std::int64_t i = 0; i < kDimension; ++i) {
      const Philox4 words = random_words(7, Stream::kCentreInit, static_cast<std::uint32_t>(i / 4),
                                         static_cast<std::uint64_t>(c));
      const std::int64_t first = i % 4 / 2 * 2;
      const NormalPair pair = box_muller(words.x[first], words.x[first + 1]);
      const float x = 0.01f * (i % 2 == 0 ? pair.a : pair.b);
      EXPECT_EQ(rows[next++], i + 1 == kDimension ? BFloat16{} : nearest_bfloat16(x)) << c << i;
    }
  }
}

TEST_F(Centres, KeepASecondMomentForAdamWOnly) {
  EXPECT_FALSE(ClassCentres(*ops_, {0, 10}, {.dimension = 8}).table().second);
  EXPECT_TRUE(ClassCentres(*ops_, {0, 10}, {.dimension = 8, .optimizer = OptimizerKind::kAdamW})
                  .table()
                  .second);
}

}  // namespace
}  // namespace pfc
