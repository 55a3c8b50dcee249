#include "comm/failures/collective_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "comm/memory_store.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using Reports = std::vector<std::optional<Collective>>;

const Collective kMine{17, "all_reduce", 40};
const std::vector<std::string> kPlaces = {"a, GPU 0", "a, GPU 1", "b, GPU 0"};

std::string culprits(const Reports& reports) { return name_culprits(kMine, 0, reports, kPlaces); }

TEST(Culprits, NamesARankThatIsBehindWithItsLastCollective) {
  EXPECT_EQ(
      culprits({{}, kMine, Collective{16, "all_gather", 8}}),
      "rank 2 (b, GPU 0) has not begun it: its last collective is all_gather of 8 bytes (number "
      "16)");
  EXPECT_EQ(culprits({{}, Collective{}, kMine}),
            "rank 1 (a, GPU 1) has not begun it: it has begun no collective");
}

TEST(Culprits, NamesARankThatWroteNothing) {
  EXPECT_EQ(culprits({{}, {}, kMine}),
            "no report from rank 1 (a, GPU 1): stuck elsewhere, or dead");
  EXPECT_EQ(culprits({{}, {}, {}}),
            "no report from rank 1 (a, GPU 1), rank 2 (b, GPU 0): stuck elsewhere, or dead");
}

TEST(Culprits, NamesARankThatBeganAnotherCollective) {
  EXPECT_EQ(culprits({{}, Collective{17, "all_reduce", 44}, Collective{18, "barrier", 0}}),
            "rank 1 (a, GPU 1) has begun all_reduce of 44 bytes (number 17) instead");
}

TEST(Culprits, NamesNoRankIfAllHaveBegunTheSameCollective) {
  EXPECT_EQ(culprits({{}, kMine, Collective{18, "barrier", 0}}),
            "all workers have begun it: check the network and the GPUs");
}

TEST(CollectiveReports, ReturnTheLastCollectiveOfEachOtherRank) {
  MemoryStore store;
  const auto of = [&](int rank) {
    return CollectiveReports(store, "step", {.rank = rank, .world_size = 3});
  };
  of(1).tell({16, "all_gather", 8});
  of(1).tell({17, "barrier", 0});
  of(0).tell(kMine);
  const Reports reports = of(0).ask(10ms);
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_FALSE(reports[0]);  // a rank does not read its own report
  ASSERT_TRUE(reports[1]);
  EXPECT_EQ(to_text(*reports[1]), "barrier (number 17)");
  EXPECT_FALSE(reports[2]);
}

TEST(CollectiveReports, AreEmptyBeforeTheFirstCollective) {
  MemoryStore store;
  CollectiveReports(store, "step", {.rank = 1, .world_size = 2}).tell({});
  const Reports reports = CollectiveReports(store, "step", {.rank = 0, .world_size = 2}).ask(10ms);
  ASSERT_TRUE(reports[1]);
  EXPECT_EQ(reports[1]->number, 0u);
}

}  // namespace
}  // namespace pfc
