// Tests how a job ends after a user has stopped it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/rules/rendezvous_fixture.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::Rendezvous;

TEST_F(Rendezvous, HasNothingToSaveBeforeTheFirstStep) {
  trains_on_two_hosts();
  starts(0, "opening /data");
  starts(1, "opening /data");
  state.job.stop = StopRequest{.reason = "SIGINT", .at = now};
  EXPECT_EQ(does(), "terminate");
  exits(0, {.signal = SIGTERM});
  exits(1, {.signal = SIGTERM});
  EXPECT_EQ(does(), "finish");
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kStopped);
  EXPECT_EQ(verdict(state).message, "job stopped by SIGINT before training began");
}

TEST_F(Rendezvous, AsksWorkersToWriteACheckpointOnAStop) {
  trains_on_two_hosts();
  state.job.stop = StopRequest{.reason = "SIGINT", .at = now};
  EXPECT_EQ(does(), "ask to stop");
  EXPECT_EQ(does(), "wait");
  for (const Rank rank : {0, 1}) {
    reports(rank, proto::OUTCOME_STOPPED);
    exits(rank, {});
  }
  EXPECT_EQ(does(), "finish");
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kStopped);
  EXPECT_EQ(verdict(state).message, "job stopped by SIGINT");
}

TEST_F(Rendezvous, KillsWorkersAfterTheStopTimeoutAndNamesThem) {
  trains_on_two_hosts();
  state.job.stop = StopRequest{.reason = "SIGTERM", .at = now};
  tick();
  reports(0, proto::OUTCOME_STOPPED);
  exits(0, {});
  passes(60s);
  EXPECT_EQ(does(), "terminate");
  exits(1, {.signal = SIGTERM});
  EXPECT_EQ(does(), "finish");
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kFailed);
  EXPECT_THAT(verdict(state).message,
              HasSubstr("rank 1 (host b, slot 0, pid 101) had to be ended"));
}

TEST_F(Rendezvous, LimitsACheckpointToTheGraceTimeOfADrainedHost) {
  trains_on_two_hosts();
  state.job.stop =
      StopRequest{.reason = "host b is leaving (SIGTERM)", .at = now, .leaving = "b", .within = 5s};
  EXPECT_EQ(does(), "ask to stop");
  now += 4s;
  EXPECT_EQ(does(), "wait");
  now += 1s;
  EXPECT_EQ(does(), "terminate");
}

TEST_F(Rendezvous, SaysWhichHostHasLeft) {
  trains_on_two_hosts();
  state.job.stop = StopRequest{
      .reason = "host b is leaving (SIGTERM)", .at = now, .leaving = "b", .within = 30s};
  tick();
  for (const Rank rank : {0, 1}) {
    reports(rank, proto::OUTCOME_STOPPED);
    exits(rank, {});
  }
  EXPECT_EQ(does(), "finish");
  EXPECT_TRUE(verdict(state).host_left);
  EXPECT_EQ(verdict(state).message, "job stopped: host b is leaving (SIGTERM)");
}

TEST_F(Rendezvous, NamesAnAgentThatIsSilentDuringAStop) {
  config.stop = 600s;
  trains_on_two_hosts();
  state.job.stop = StopRequest{.reason = "SIGTERM", .at = now};
  tick();
  passes(29s);
  state.hosts[1].last_heard -= 29s;
  EXPECT_EQ(does(), "wait");
  now += 1s;
  EXPECT_EQ(does(), "blame");
  EXPECT_THAT(verdict(state).message, HasSubstr("host b: its agent has been silent for 30 s"));
}

TEST_F(Rendezvous, DoesNotWaitForACheckpointAfterASecondStop) {
  trains_on_two_hosts();
  state.job.stop = StopRequest{.reason = "SIGINT", .at = now};
  tick();
  state.job.stop->urgent = true;
  EXPECT_EQ(does(), "terminate");
}

TEST_F(Rendezvous, EndsImmediatelyOnAStopBeforeTheStart) {
  expect_hosts({{"a", 1}});
  state.job.stop = StopRequest{.reason = "SIGINT", .at = now};
  EXPECT_EQ(does(), "finish");
  EXPECT_EQ(verdict(state).message, "job stopped by SIGINT before training began");
}

TEST_F(Rendezvous, DoesNotWaitForWorkersThatStillJoinOnAStop) {
  expect_hosts({{"a", 2}});
  registers("a");
  tick();
  joins(0);
  state.job.stop = StopRequest{.reason = "SIGINT", .at = now};
  EXPECT_EQ(does(), "terminate");
  exits(0, {.signal = SIGTERM});
  exits(1, {.signal = SIGTERM});
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kStopped);
}

TEST_F(Rendezvous, ReportsAFailureDuringAStopAsAFailure) {
  trains_on_two_hosts();
  state.job.stop = StopRequest{.reason = "SIGINT", .at = now};
  tick();
  reports(1, proto::OUTCOME_FAILED, "work_dirs/job: no space left on device");
  exits(1, {.code = 1});
  reports(0, proto::OUTCOME_STOPPED);
  exits(0, {});
  EXPECT_EQ(does(), "finish");
  EXPECT_THAT(verdict(state).message, HasSubstr("no space left"));
}

TEST_F(Rendezvous, ReportsACheckpointThatFailsAfterSigtermAsAFailure) {
  trains_on_two_hosts();
  state.job.stop = StopRequest{.reason = "pfcctl stop", .urgent = true, .at = now};
  EXPECT_EQ(does(), "terminate");
  reports(1, proto::OUTCOME_COMM_FAILED, "rank 0 is gone");
  exits(1, {.code = 4});
  reports(0, proto::OUTCOME_FAILED, "work_dirs/job: not a directory");
  exits(0, {.code = 2});
  EXPECT_EQ(does(), "finish");
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kFailed);
  EXPECT_THAT(verdict(state).message, HasSubstr("not a directory"));
}

TEST_F(Rendezvous, ReportsALostPeerDuringAStopAsAFailure) {
  trains_on_two_hosts();
  state.job.stop = StopRequest{.reason = "pfcctl stop", .urgent = true, .at = now};
  tick();
  for (const Rank rank : {0, 1}) {
    reports(rank, proto::OUTCOME_COMM_FAILED, "a peer is gone");
    exits(rank, {.code = 4});
  }
  EXPECT_EQ(does(), "finish");
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kFailed);
}

}  // namespace
}  // namespace pfc
