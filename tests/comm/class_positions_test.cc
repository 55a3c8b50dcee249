#include "comm/class_positions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace pfc {
namespace {

TEST(ClassPositions, EqualLabelsIfClassesAreSampledSingly) {
  const ClassPositions positions{.classes = 1000, .seed = 5};
  for (std::int64_t c = -1; c <= 1000; ++c) {
    EXPECT_EQ(positions.position_of(c), c);
    EXPECT_EQ(positions.label_at(c), c);
  }
}

TEST(ClassPositions, LeaveNumbersOutsideTheLabelsUnchanged) {
  const ClassPositions positions{.classes = 1000, .sample_unit = 8, .seed = 5};
  for (const std::int64_t label : {-1, 1000, 123'456}) {
    EXPECT_EQ(positions.position_of(label), label);
    EXPECT_EQ(positions.label_at(label), label);
  }
}

TEST(ClassPositions, DependOnSeedAndNumberOfClassesButNotOnTheSizeOfBlocks) {
  const ClassPositions eight{.classes = 1000, .sample_unit = 8, .seed = 5};
  ClassPositions other = eight;
  other.sample_unit = 16;
  EXPECT_TRUE(eight.same_order(other));
  for (std::int64_t c = 0; c < 1000; ++c) EXPECT_EQ(eight.position_of(c), other.position_of(c));
  EXPECT_FALSE(eight.same_order({.classes = 1001, .sample_unit = 8, .seed = 5}));
  for (const ClassPositions& different : {ClassPositions{.classes = 1000, .sample_unit = 8},
                                          ClassPositions{.classes = 1000, .seed = 5}}) {
    EXPECT_FALSE(eight.same_order(different));
    EXPECT_FALSE(different.same_order(eight));
    int same = 0;
    for (std::int64_t c = 0; c < 1000; ++c) {
      same += eight.position_of(c) == different.position_of(c) ? 1 : 0;
    }
    EXPECT_LT(same, 10);
  }
}

TEST(ClassPositions, ShardsCoverAllRowsInWholeBlocks) {
  for (const std::int64_t classes : {1, 7, 8, 9, 64, 100, 1003}) {
    for (const std::int64_t unit : {1, 2, 8, 64}) {
      const ClassPositions positions{.classes = classes, .sample_unit = unit};
      for (const int workers : {1, 2, 3, 7}) {
        std::int64_t end = 0;
        for (int rank = 0; rank < workers; ++rank) {
          const RowRange shard = positions.shard(rank, workers);
          EXPECT_EQ(shard.begin, end);
          EXPECT_TRUE(shard.end % unit == 0 || shard.end == classes);
          EXPECT_LE(shard.size(), positions.shard(0, workers).size());
          end = shard.end;
        }
        EXPECT_EQ(end, classes) << unit << " " << workers;
      }
    }
  }
}

}  // namespace
}  // namespace pfc
