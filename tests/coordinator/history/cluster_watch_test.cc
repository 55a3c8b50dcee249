#include "coordinator/history/cluster_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class WatchOfACluster : public ::testing::Test {
 protected:
  WatchOfACluster() {
    state.job.id = "0123456789abcdef";
    state.job.current.number = 1;
    state.hosts = {{.name = "a", .slots = 2}, {.name = "b", .slots = 2}};
  }

  std::vector<std::string> texts() {
    std::vector<std::string> found;
    for (const ClusterEvent& event : watch.update(state)) found.push_back(event.text);
    return found;
  }
  void registers(HostState& host, const std::string& agent) {
    host.registered = true;
    host.agent_id = agent;
  }
  static Incident crash(Rank rank, Incident::Kind kind = Incident::Kind::kCrash) {
    return {.kind = kind,
            .rank = rank,
            .host = {},
            .who = "rank " + std::to_string(rank),
            .what = "killed"};
  }

  ClusterState state;
  ClusterWatch watch;
};

TEST_F(WatchOfACluster, ReportsEachNewHostOnce) {
  registers(state.hosts[0], "first");
  EXPECT_THAT(texts(), ElementsAre("host a has joined with 2 slots"));
  EXPECT_THAT(texts(), IsEmpty());
}

TEST_F(WatchOfACluster, ReportsALostHostAndItsNextAgent) {
  registers(state.hosts[0], "first");
  texts();
  state.hosts[0].registered = false;
  EXPECT_THAT(texts(), ElementsAre("host a is no longer registered"));
  registers(state.hosts[0], "second");
  EXPECT_THAT(texts(), ElementsAre(HasSubstr("host a has joined")));
}

TEST_F(WatchOfACluster, ReportsAHostThatIsDrained) {
  state.hosts[1].leaving = Leaving{.reason = "SIGTERM", .at = {}};
  EXPECT_THAT(texts(), ElementsAre("host b is being drained (SIGTERM)"));
  EXPECT_THAT(texts(), IsEmpty());
}

TEST_F(WatchOfACluster, NamesTheRankOfAFailure) {
  state.job.current.incidents = {crash(1)};
  const std::vector<ClusterEvent> found = watch.update(state);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].kind, ClusterEvent::Kind::kFailure);
  EXPECT_EQ(found[0].severity, Severity::kError);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].text, "rank 1: killed");
}

TEST_F(WatchOfACluster, ReportsLostPeersOnceAndNotAsFailures) {
  state.job.current.incidents = {crash(1)};
  for (Rank rank = 2; rank < 100; ++rank) {
    state.job.current.incidents.push_back(crash(rank, Incident::Kind::kPeerLost));
  }
  const std::vector<ClusterEvent> found = watch.update(state);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[1].severity, Severity::kWarning);
}

TEST_F(WatchOfACluster, LimitsReportedFailuresPerGeneration) {
  for (Rank rank = 0; rank < 1'000; ++rank) state.job.current.incidents.push_back(crash(rank));
  EXPECT_THAT(texts(), SizeIs(ClusterWatch::kMostFailures));
  state.job.current.number = 2;
  state.job.current.incidents = {crash(7)};
  EXPECT_THAT(texts(), ElementsAre("rank 7: killed"));
}

TEST_F(WatchOfACluster, ReportsThatTheWorkersTrainTogether) {
  state.job.current.workers.resize(3);
  EXPECT_THAT(texts(), IsEmpty());
  state.job.current.begun = true;
  EXPECT_THAT(texts(), ElementsAre("3 workers of generation 1 train together"));
  EXPECT_THAT(texts(), IsEmpty());
}

TEST_F(WatchOfACluster, ReportsCheckpointsAtMostTwiceAMinute) {
  state.job.saved = {.generation = 1, .step = 10, .at = {}};  // the state it resumed from
  EXPECT_THAT(texts(), IsEmpty());
  state.job.saved = {.generation = 1, .step = 20, .at = TimePoint(100s)};
  EXPECT_THAT(texts(), ElementsAre("the state of step 20 is saved"));
  state.job.saved = {.generation = 1, .step = 30, .at = TimePoint(101s)};
  EXPECT_THAT(texts(), IsEmpty());
  state.job.saved = {.generation = 1, .step = 60, .at = TimePoint(131s)};
  EXPECT_THAT(texts(), ElementsAre("the state of step 60 is saved"));
}

TEST_F(WatchOfACluster, NamesTheRequesterOfAStop) {
  state.job.stop = StopRequest{.reason = "pfcctl stop", .at = {}, .leaving = {}};
  EXPECT_THAT(texts(), ElementsAre("stop requested by pfcctl stop"));
  EXPECT_THAT(texts(), IsEmpty());
}

}  // namespace
}  // namespace pfc
