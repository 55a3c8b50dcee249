#include "coordinator/rank_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pfc {
namespace {

TEST(RankAssignment, FollowsTheOrderOfTheHostsAndFillsEachBeforeTheNext) {
  const std::vector<HostState> hosts{{.name = "b", .slots = 2}, {.name = "a", .slots = 3}};
  EXPECT_THAT(assign_ranks(hosts),
              ::testing::ElementsAre(Member{.rank = 0, .host = "b", .slot = 0},
                                     Member{.rank = 1, .host = "b", .slot = 1},
                                     Member{.rank = 2, .host = "a", .slot = 0},
                                     Member{.rank = 3, .host = "a", .slot = 1},
                                     Member{.rank = 4, .host = "a", .slot = 2}));
}

TEST(RankAssignment, OfNoHostsIsEmpty) { EXPECT_TRUE(assign_ranks({}).empty()); }

}  // namespace
}  // namespace pfc
