#include "coordinator/rules/progress/awaited.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace pfc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Workers with reported positions in their communicators.
class AwaitedWorkers : public ::testing::Test {
 protected:
  struct Comm {
    const char* purpose;
    std::uint64_t calls;
    std::uint64_t done;
  };
  void worker(std::initializer_list<Comm> comms) {
    proto::Progress& progress = told_.emplace_back();
    for (const Comm& comm : comms) {
      proto::CommTotal* total = progress.add_comm();
      total->set_purpose(comm.purpose);
      total->set_calls(comm.calls);
      total->set_done(comm.done);
      total->set_newest("all_gather");
    }
  }
  std::vector<Rank> found() {
    std::vector<Standing> standings;
    for (const proto::Progress& progress : told_) {
      standings.push_back({static_cast<Rank>(standings.size()), &progress});
    }
    all = find_awaited(standings);
    std::vector<Rank> ranks;
    for (const Awaited& each : all) ranks.push_back(each.rank);
    return ranks;
  }

  std::vector<Awaited> all;

 private:
  std::deque<proto::Progress> told_;
};

TEST_F(AwaitedWorkers, HaveNotBegunTheCollectiveOfTheOthers) {
  worker({{"step", 17, 16}});
  worker({{"step", 16, 16}});
  worker({{"step", 17, 16}});
  EXPECT_THAT(found(), ElementsAre(1));
  EXPECT_EQ(to_text(all[0]),
            "while 2 other workers wait for it in all_gather (number 17 of communicator 'step')");
}

TEST_F(AwaitedWorkers, AreNoneIfNoWorkerOrEveryWorkerWaits) {
  worker({{"step", 16, 16}});
  worker({{"step", 15, 15}});
  EXPECT_THAT(found(), IsEmpty()) << "no worker waits";
}

TEST_F(AwaitedWorkers, AreNoneIfAllWorkersAreInTheSameCollective) {
  worker({{"step", 16, 15}});
  worker({{"step", 16, 15}});
  EXPECT_THAT(found(), IsEmpty()) << "the network may be at fault";
}

TEST_F(AwaitedWorkers, ExcludeAWorkerThatWaitsItself) {
  worker({{"step", 17, 16}, {"inputs", 9, 9}});
  worker({{"step", 16, 16}, {"inputs", 9, 8}});  // waits for its next labels
  worker({{"step", 16, 16}, {"inputs", 8, 8}});  // its data do not arrive
  EXPECT_THAT(found(), ElementsAre(2));
}

TEST_F(AwaitedWorkers, IncludeAWorkerInACollectiveThatAllOthersHaveCompleted) {
  worker({{"step", 18, 17}});
  worker({{"step", 17, 16}});
  worker({{"step", 18, 17}});
  EXPECT_THAT(found(), ElementsAre(1));
}

TEST_F(AwaitedWorkers, ExcludeAWorkerInACollectiveThatAnotherHasNotCompleted) {
  worker({{"step", 18, 17}});
  worker({{"step", 17, 16}});
  worker({{"step", 16, 16}});
  EXPECT_THAT(found(), ElementsAre(2));
}

TEST_F(AwaitedWorkers, IncludeAllWorkersThatAreBehind) {
  worker({{"step", 17, 16}});
  worker({{"step", 16, 16}});
  worker({{"step", 12, 12}});
  EXPECT_THAT(found(), ElementsAre(1, 2));
  EXPECT_EQ(to_text(all[1]),
            "while 1 other worker waits for it in all_gather (number 17 of communicator 'step')");
}

TEST_F(AwaitedWorkers, ExcludeAWorkerWithoutReportedCommunicators) {
  worker({{"step", 17, 16}});
  worker({});
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(AwaitedWorkers, IgnorePositionsInCommunicatorsOfTwoWorkers) {
  worker({{"step", 16, 16}, {"output", 40, 40}});
  worker({{"step", 17, 16}, {"output", 7, 7}});
  worker({{"step", 16, 16}, {"output", 9, 8}});  // waits for rank 0
  EXPECT_THAT(found(), ElementsAre(0));
}

}  // namespace
}  // namespace pfc
