// Tests which worker decide() blames for a failure, and how it ends the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/rules/rendezvous_fixture.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Rendezvous;

TEST_F(Rendezvous, BlamesAKilledWorkerAndGivesItsPeersTimeToNotice) {
  trains_on_two_hosts();
  exits(1, {.signal = SIGKILL});
  EXPECT_EQ(does(), "wait");
  passes(4'900ms);
  EXPECT_EQ(does(), "wait");
  passes(100ms);
  EXPECT_EQ(does(), "terminate");
  exits(0, {.signal = SIGTERM});
  EXPECT_EQ(does(), "finish");
  EXPECT_EQ(verdict(state).message,
            "job failed: rank 1 (host b, slot 0, pid 101): killed by signal 9 (SIGKILL)");
  EXPECT_FALSE(verdict(state).at_start);
}

TEST_F(Rendezvous, BlamesACrashAndNotThePeerThatReportedItFirst) {
  trains_on_two_hosts();
  reports(0, proto::OUTCOME_COMM_FAILED, "all_reduce: connection closed by peer");
  exits(0, {.code = 1});
  passes(800ms);
  exits(1, {.signal = SIGSEGV});
  EXPECT_EQ(does(), "finish");
  EXPECT_THAT(verdict(state).message, HasSubstr("rank 1 (host b"));
  EXPECT_THAT(verdict(state).message, HasSubstr("SIGSEGV"));
}

TEST_F(Rendezvous, BlamesTheFirstOfTwoCrashes) {
  trains_on_two_hosts();
  exits(0, {.code = 7},
        {"terminate called", "out of memory", "pfc-worker: warning: batch_size: few", "  "});
  passes(10ms);
  exits(1, {.signal = SIGABRT});
  EXPECT_EQ(verdict(state).message,
            "job failed: rank 0 (host a, slot 0, pid 100): exited with code 7: out of memory");
}

TEST_F(Rendezvous, PrefersAWorkersReportToItsExitCode) {
  trains_on_two_hosts();
  reports(1, proto::OUTCOME_FAILED, "train.rec: record 7 is damaged");
  exits(1, {.code = 2});
  EXPECT_EQ(verdict(state).message,
            "job failed: rank 1 (host b, slot 0, pid 101): train.rec: record 7 is damaged");
  EXPECT_EQ(verdict(state).worker_exit_code, 2);
}

TEST_F(Rendezvous, ShowsAReportAsOnePrintableLine) {
  trains_on_two_hosts();
  reports(1, proto::OUTCOME_FAILED, "first\nsecond\x1b[2J \xff\xc3\xa9");
  EXPECT_THAT(verdict(state).message, HasSubstr("first second [2J ?\xc3\xa9"));
}

TEST_F(Rendezvous, TreatsAnExitWithoutAReportAsAFailureEvenWithCodeZero) {
  trains_on_two_hosts();
  exits(1, {});
  EXPECT_THAT(verdict(state).message, HasSubstr("without reporting how its work ended"));
}

TEST_F(Rendezvous, TreatsACrashAfterReportedSuccessAsAFailure) {
  trains_on_two_hosts();
  reports(1, proto::OUTCOME_COMPLETED);
  exits(1, {.signal = SIGSEGV});
  EXPECT_THAT(verdict(state).message, HasSubstr("reported success, then killed by signal 11"));
}

TEST_F(Rendezvous, NamesASilentWorkerAndItsLastStepAndPhase) {
  trains_on_two_hosts();
  progresses(0, 120, "forward");
  progresses(1, 120, "all_gather");
  passes(29s, 1);
  EXPECT_EQ(does(), "wait");
  passes(1s, 1);
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(verdict(state).message,
            "job failed: rank 1 (host b, slot 0, pid 101): silent for 30 s; last seen at step 120 "
            "in all_gather");
}

TEST_F(Rendezvous, BlamesTheSilentWorkerWhenAPeerIsLost) {
  trains_on_two_hosts();
  passes(4s, 1);
  reports(0, proto::OUTCOME_COMM_FAILED, "all_reduce: timed out");
  exits(0, {.code = 1});
  passes(5s, 1);
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(does(), "terminate");
  exits(1, {.signal = SIGTERM});
  EXPECT_THAT(verdict(state).message,
              HasSubstr("rank 1 (host b, slot 0, pid 101): silent for 9 s"));
}

TEST_F(Rendezvous, BlamesTheStuckWorkerWhenAPeerIsLost) {
  trains_on_two_hosts();
  progresses(1, 3, "optimizer");
  passes(1s);
  reports(0, proto::OUTCOME_COMM_FAILED, "all_reduce: timed out");
  exits(0, {.code = 1});
  passes(5s);
  EXPECT_EQ(does(), "blame");
  EXPECT_THAT(verdict(state).message,
              HasSubstr("rank 1 (host b, slot 0, pid 101): alive, but stuck for 6 s; last seen at "
                        "step 3 in optimizer"));
  EXPECT_THAT(verdict(state).message, HasSubstr("rank 0"));
}

TEST_F(Rendezvous, DoesNotBlameAWorkerThatWaitsInTheSameCollectiveWhenAPeerIsLost) {
  trains_on_two_hosts();
  proto::Progress waits;
  waits.set_step(3);
  waits.set_phase("all_gather");
  proto::CommTotal* const comm = waits.add_comm();
  comm->set_purpose("step");
  comm->set_calls(4);
  comm->set_done(3);
  for (WorkerState& worker : state.job.current.workers) worker_progressed(worker, waits, now);
  passes(10s);
  reports(0, proto::OUTCOME_COMM_FAILED, "all_gather: timed out");
  exits(0, {.code = 1});
  passes(5s);
  EXPECT_EQ(does(), "terminate") << "the cause is unknown";
}

TEST_F(Rendezvous, NamesAWorkerThatHasFinishedButStillRuns) {
  trains_on_two_hosts();
  reports(0, proto::OUTCOME_COMPLETED);
  exits(0, {});
  reports(1, proto::OUTCOME_COMPLETED);
  passes(30s);
  EXPECT_EQ(does(), "blame");
  EXPECT_THAT(verdict(state).message, HasSubstr("rank 1"));
  EXPECT_THAT(verdict(state).message, HasSubstr("still runs after 30 s"));
}

TEST_F(Rendezvous, KillsWorkersThatIgnoreSigtermAndStopsWaitingForThem) {
  trains_on_two_hosts();
  exits(0, {.code = 1});
  passes(5s);
  EXPECT_EQ(does(), "terminate");
  EXPECT_EQ(does(), "wait");
  passes(5s);
  EXPECT_EQ(does(), "kill");
  EXPECT_EQ(does(), "wait");
  passes(5s);
  EXPECT_EQ(does(), "finish");
}

TEST_F(Rendezvous, ReportsTheSameFailureOfManyRanksOnce) {
  expect_hosts({{"a", 8}});
  registers("a");
  tick();
  for (const Rank rank : {0, 1, 2, 5, 7}) reports(rank, proto::OUTCOME_FAILED, "rec: no such file");
  reports(3, proto::OUTCOME_COMM_FAILED, "all_gather: rank 0 is gone");
  EXPECT_EQ(verdict(state).message, "job failed: ranks 0-2, 5, 7: rec: no such file");
  EXPECT_THAT(incident_lines(state.job.current),
              ElementsAre("ranks 0-2, 5, 7: rec: no such file",
                          "rank 3 (host a, slot 3, pid 103): all_gather: rank 0 is gone"));
}

TEST_F(Rendezvous, NamesTheHostIfAllItsRanksReportTheSameFailure) {
  expect_hosts({{"a", 2}, {"b", 2}});
  registers("a");
  registers("b");
  tick();
  for (const Rank rank : {2, 3}) reports(rank, proto::OUTCOME_BAD_INPUT, "rec: not found");
  EXPECT_EQ(verdict(state).message, "job failed: ranks 2-3 (host b): rec: not found");
  reports(1, proto::OUTCOME_BAD_INPUT, "rec: not found");
  EXPECT_EQ(verdict(state).message, "job failed: ranks 1-3: rec: not found");
}

TEST_F(Rendezvous, DoesNotCountTimeInWhichTheCoordinatorDidNotRun) {
  trains_on_two_hosts();
  now += 90s;
  postpone(state, 90s);
  EXPECT_EQ(does(), "wait");
  now += 30s;
  EXPECT_EQ(does(), "blame, blame");
}

TEST(ApplyAction, RecordsOneFailureAndTheTimesOfSignals) {
  ClusterState state;
  const TimePoint now{5s};
  apply(state, action::Blame{{.rank = {}, .host = {}, .who = "host a", .what = "late"}}, now);
  apply(state, action::Terminate(), now);
  apply(state, action::Kill(), now + 1s);
  EXPECT_THAT(incident_lines(state.job.current), ElementsAre("host a: late"));
  EXPECT_EQ(state.job.terminated_at, now);
  EXPECT_EQ(state.job.killed_at, now + 1s);
}

}  // namespace
}  // namespace pfc
