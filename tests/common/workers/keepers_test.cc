#include "common/workers/keepers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace pfc {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> hosts(std::initializer_list<int> sizes) {
  std::vector<std::string> names;
  char name = 'a';
  for (const int size : sizes) {
    names.insert(names.end(), static_cast<std::size_t>(size), std::string(1, name++));
  }
  return names;
}

TEST(SnapshotKeepers, AreTheNextWorkersOnOneHost) {
  EXPECT_THAT(keepers_of(hosts({4})), ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(keepers_of(hosts({1})), ElementsAre(0));
}

TEST(SnapshotKeepers, AreOnAnotherHost) {
  for (const auto& sizes :
       {hosts({2, 2}), hosts({1, 1, 1}), hosts({3, 1, 2}), hosts({8, 8, 8}), hosts({1, 4, 3})}) {
    const std::vector<Rank> keepers = keepers_of(sizes);
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
      EXPECT_NE(sizes[rank], sizes[static_cast<std::size_t>(keepers[rank])]);
    }
  }
}

TEST(SnapshotKeepers, AreOnAnotherHostIfHostsAlternate) {
  const std::vector<std::string> mixed{"b", "a", "b", "a"};
  const std::vector<Rank> keepers = keepers_of(mixed);
  for (std::size_t rank = 0; rank < mixed.size(); ++rank) {
    EXPECT_NE(mixed[rank], mixed[static_cast<std::size_t>(keepers[rank])]);
  }
}

TEST(SnapshotKeepers, AreOnOtherHostsForAsManyWorkersAsPossible) {
  const auto sizes = hosts({5, 2});
  const std::vector<Rank> keepers = keepers_of(sizes);
  int away = 0;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    away += sizes[rank] == sizes[static_cast<std::size_t>(keepers[rank])] ? 0 : 1;
  }
  EXPECT_EQ(away, 4) << "both workers of host b, and two of host a";
}

TEST(SnapshotKeepers, KeepOneCopyPerWorker) {
  for (const auto& sizes : {hosts({4}), hosts({2, 3}), hosts({5, 2}), hosts({1, 1, 7})}) {
    std::vector<Rank> keepers = keepers_of(sizes);
    for (Rank me = 0; me < static_cast<Rank>(keepers.size()); ++me) {
      EXPECT_EQ(keepers[static_cast<std::size_t>(kept_by(keepers, me))], me);
    }
    std::ranges::sort(keepers);
    EXPECT_EQ(std::ranges::adjacent_find(keepers), keepers.end());
  }
  EXPECT_EQ(kept_by({0}, 0), -1);
}

}  // namespace
}  // namespace pfc
