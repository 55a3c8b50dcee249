// What decide() does in each situation. Only the test moves the time.
#include "coordinator/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class Rendezvous : public ::testing::Test {
 protected:
  void expect_hosts(std::vector<std::pair<std::string, int>> hosts) {
    for (const auto& [name, slots] : hosts) state.hosts.push_back({.name = name, .slots = slots});
    state.started_at = now;
    state.address = "10.0.0.1:7450";
  }

  /// With so many GPUs.
  void registers(const std::string& name, int gpus = 1) {
    proto::AgentRegistration registration;
    registration.set_gpus(gpus);
    if (gpus == 0) registration.set_no_gpu("no CUDA driver: install one");
    host_registered(*find_host(state, name), registration, config.device, now);
  }

  /// Of each host, once all are there.
  std::vector<int> slots() {
    std::vector<int> slots;
    for (const HostState& host : state.hosts) slots.push_back(host.slots);
    return slots;
  }

  Decision tick() {
    Decision decision = decide(state, config, now);
    apply(state, decision, now);
    if (decision.action == Action::kStartGeneration) {
      for (WorkerState& worker : state.workers) worker.pid = 100 + worker.rank;
    }
    return decision;
  }

  void joins(Rank rank) {
    state.workers.at(rank).joined = true;
    state.workers.at(rank).last_heard = state.workers.at(rank).last_moved = now;
  }

  void trains_on_two_hosts() {
    expect_hosts({{"a", 1}, {"b", 1}});
    registers("a");
    registers("b");
    ASSERT_EQ(tick().action, Action::kStartGeneration);
    joins(0);
    joins(1);
    ASSERT_EQ(tick().reason, "training");
  }

  /// Time passes, and everybody but `silent` is heard of.
  void passes(std::chrono::milliseconds time, std::optional<Rank> silent = {}) {
    now += time;
    for (HostState& host : state.hosts) host.last_heard = now;
    for (WorkerState& worker : state.workers) {
      if (worker.rank != silent) worker.last_heard = now;
    }
  }

  void progresses(Rank rank, std::int64_t step, const std::string& phase) {
    proto::Progress progress;
    progress.set_step(step);
    progress.set_phase(phase);
    worker_progressed(state.workers.at(rank), progress, now);
  }

  void starts(Rank rank, const std::string& doing, std::int64_t work = 0) {
    proto::Progress progress;
    progress.set_work(work);
    progress.set_starting(true);
    progress.set_phase(doing);
    worker_progressed(state.workers.at(rank), progress, now);
  }

  void exits(Rank rank, ProcessExit exit, const std::vector<std::string>& words = {}) {
    worker_exited(state, state.workers.at(rank), exit, words, now);
  }

  void reports(Rank rank, proto::Outcome outcome, const std::string& message = "") {
    worker_reported(state, state.workers.at(rank), outcome, message, now);
  }

  TimePoint now{1000s};
  ClusterState state;
  RendezvousConfig config;
};

TEST_F(Rendezvous, WaitsForEveryHostAndNamesTheMissing) {
  expect_hosts({{"a", 8}, {"b", 8}});
  EXPECT_EQ(tick().reason, "waiting for a, b to register");
  registers("a");
  EXPECT_EQ(tick().reason, "waiting for b to register");
}

TEST_F(Rendezvous, StartsTheFirstGenerationWhenAllHostsAreHere) {
  expect_hosts({{"a", 2}, {"b", 1}});
  registers("b");
  registers("a");
  const Decision decision = tick();
  EXPECT_EQ(decision.action, Action::kStartGeneration);
  EXPECT_EQ(decision.members, assign_ranks(state.hosts));
  EXPECT_EQ(state.generation, 1);
}

TEST_F(Rendezvous, GivesOneSlotForEachGpuAndOneToAHostWithoutGpus) {
  expect_hosts({{"a", 0}, {"b", 0}, {"c", 2}});
  registers("a", 3);
  registers("b", 0);
  registers("c", 3);
  EXPECT_THAT(slots(), ElementsAre(3, 1, 2));
  EXPECT_THAT(tick().members, SizeIs(6));
}

TEST_F(Rendezvous, GivesOneSlotToAHostOfAJobOnCpus) {
  config.device = DeviceChoice::kCpu;
  expect_hosts({{"a", 0}});
  registers("a", 8);
  EXPECT_THAT(slots(), ElementsAre(1));
}

TEST_F(Rendezvous, KeepsTheSlotsOfAHostWhoseAgentRegistersAgain) {
  expect_hosts({{"a", 0}});
  registers("a", 2);
  registers("a", 1);
  EXPECT_THAT(slots(), ElementsAre(2));
}

TEST_F(Rendezvous, LimitsAnImpossibleNumberOfGpus) {
  expect_hosts({{"a", 0}, {"b", 0}});
  registers("a", 2'000'000'000);
  registers("b", -1);
  EXPECT_THAT(slots(), ElementsAre(1024, 1));
}

TEST_F(Rendezvous, FailsAJobForGpusBeforeItStartsWhenAHostHasNone) {
  config.device = DeviceChoice::kCuda;
  expect_hosts({{"a", 1}, {"b", 1}, {"c", 1}});
  registers("a", 1);
  EXPECT_EQ(tick().reason, "waiting for b, c to register");
  registers("b", 0);
  EXPECT_EQ(tick().action, Action::kFail);
  EXPECT_EQ(tick().action, Action::kFinish);
  EXPECT_TRUE(verdict(state).at_start);
  EXPECT_EQ(verdict(state).message,
            "job failed: host b: device: found \"cuda\", but no CUDA driver: install one");
}

TEST_F(Rendezvous, StartsAJobForAnyDeviceOnAHostWithoutGpu) {
  expect_hosts({{"a", 2}});
  registers("a", 0);
  EXPECT_EQ(tick().action, Action::kStartGeneration);
}

TEST_F(Rendezvous, FailsWithTheCommandToRunWhenAHostDoesNotRegister) {
  expect_hosts({{"a", 1}, {"b", 1}});
  registers("a");
  passes(59s);
  EXPECT_EQ(tick().action, Action::kWait);
  passes(1s);
  EXPECT_EQ(tick().action, Action::kFail);
  EXPECT_EQ(tick().action, Action::kFinish);
  EXPECT_TRUE(verdict(state).at_start);
  EXPECT_EQ(verdict(state).message,
            "job failed: host b: no agent has registered after 60 s; run there: pfc-agent "
            "--coordinator 10.0.0.1:7450 --host b");
}

TEST_F(Rendezvous, NamesAWorkerThatDoesNotJoin) {
  expect_hosts({{"a", 1}, {"b", 1}});
  registers("a");
  registers("b");
  tick();
  joins(0);
  passes(60s);
  EXPECT_EQ(tick().action, Action::kFail);
  EXPECT_EQ(tick().action, Action::kTerminate);
  EXPECT_EQ(verdict(state).message,
            "job failed: rank 1 (host b, slot 0, pid 101): has not joined after 60 s");
}

TEST_F(Rendezvous, NamesAWorkerThatDoesNotComeToItsFirstStep) {
  trains_on_two_hosts();
  starts(1, "opening /data");
  passes(1s);
  starts(0, "connecting to the other workers");
  passes(59s);
  EXPECT_EQ(tick().action, Action::kWait) << "rank 0 has moved since";
  passes(1s);
  EXPECT_EQ(tick().action, Action::kFail);
  EXPECT_TRUE(verdict(state).at_start);
  EXPECT_EQ(verdict(state).message,
            "job failed: rank 1 (host b, slot 0, pid 101): has not begun to train: no progress for "
            "60 s in: opening /data; --start-timeout sets this time");
}

TEST_F(Rendezvous, WaitsForALongStartThatGoesOn) {
  trains_on_two_hosts();
  starts(0, "connecting to the other workers");
  for (int percent = 0; percent < 100; ++percent) {
    starts(1, "scanning /data/train.rec: " + std::to_string(percent) + " %");
    passes(50s);
    ASSERT_EQ(tick().action, Action::kWait);
  }
  for (int work = 1; work < 100; ++work) {
    starts(1, "loading weights", work);
    passes(50s);
    ASSERT_EQ(tick().action, Action::kWait) << "it computes or reads";
  }
  progresses(0, 0, "forward");
  progresses(1, 0, "forward");
  passes(120s);
  EXPECT_EQ(tick().action, Action::kWait) << "a step takes as long as it takes";
}

TEST_F(Rendezvous, HasNothingToSaveBeforeTheFirstStep) {
  trains_on_two_hosts();
  starts(0, "opening /data");
  starts(1, "opening /data");
  state.stop = StopRequest{.reason = "SIGINT", .at = now};
  EXPECT_EQ(tick().action, Action::kTerminate);
  exits(0, {.signal = SIGTERM});
  exits(1, {.signal = SIGTERM});
  EXPECT_EQ(tick().action, Action::kFinish);
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kStopped);
  EXPECT_EQ(verdict(state).message, "job stopped by SIGINT before training began");
}

TEST_F(Rendezvous, CompletesWhenEveryRankHasReportedItAndExited) {
  trains_on_two_hosts();
  reports(0, proto::OUTCOME_COMPLETED);
  exits(0, {});
  EXPECT_EQ(tick().action, Action::kWait);
  reports(1, proto::OUTCOME_COMPLETED);
  exits(1, {});
  EXPECT_EQ(tick().action, Action::kFinish);
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kCompleted);
}

TEST_F(Rendezvous, BlamesAKilledWorkerAndGivesItsPeersTimeToNotice) {
  trains_on_two_hosts();
  exits(1, {.signal = SIGKILL});
  EXPECT_EQ(tick().action, Action::kWait);
  passes(4'900ms);
  EXPECT_EQ(tick().action, Action::kWait);
  passes(100ms);
  EXPECT_EQ(tick().action, Action::kTerminate);
  exits(0, {.signal = SIGTERM});
  EXPECT_EQ(tick().action, Action::kFinish);
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
  EXPECT_EQ(tick().action, Action::kFinish);
  EXPECT_THAT(verdict(state).message, HasSubstr("rank 1 (host b"));
  EXPECT_THAT(verdict(state).message, HasSubstr("SIGSEGV"));
}

TEST_F(Rendezvous, BlamesTheFirstOfTwoCrashes) {
  trains_on_two_hosts();
  exits(0, {.code = 7}, {"terminate called", "out of memory", "  "});
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

TEST_F(Rendezvous, MakesReportsOnePrintableLine) {
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
  EXPECT_EQ(tick().action, Action::kWait);
  passes(1s, 1);
  EXPECT_EQ(tick().action, Action::kFail);
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
  EXPECT_EQ(tick().action, Action::kFail);
  EXPECT_EQ(tick().action, Action::kTerminate);
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
  EXPECT_EQ(tick().action, Action::kFail);
  EXPECT_THAT(verdict(state).message,
              HasSubstr("rank 1 (host b, slot 0, pid 101): alive, but stuck for 6 s; last seen at "
                        "step 3 in optimizer"));
  EXPECT_THAT(verdict(state).message, HasSubstr("rank 0"));
}

TEST_F(Rendezvous, FailsWhenAnAgentFallsSilent) {
  trains_on_two_hosts();
  now += 30s;
  state.hosts[0].last_heard = now;
  EXPECT_EQ(tick().action, Action::kFail);
  EXPECT_THAT(verdict(state).message, HasSubstr("host b: its agent has been silent for 30 s"));
}

TEST_F(Rendezvous, NamesAWorkerThatHasFinishedButStillRuns) {
  trains_on_two_hosts();
  reports(0, proto::OUTCOME_COMPLETED);
  exits(0, {});
  reports(1, proto::OUTCOME_COMPLETED);
  passes(30s);
  EXPECT_EQ(tick().action, Action::kFail);
  EXPECT_THAT(verdict(state).message, HasSubstr("rank 1"));
  EXPECT_THAT(verdict(state).message, HasSubstr("still runs after 30 s"));
}

TEST_F(Rendezvous, KillsWorkersThatIgnoreSigtermAndStopsWaitingForThem) {
  trains_on_two_hosts();
  exits(0, {.code = 1});
  passes(5s);
  EXPECT_EQ(tick().action, Action::kTerminate);
  EXPECT_EQ(tick().action, Action::kWait);
  passes(5s);
  EXPECT_EQ(tick().action, Action::kKill);
  EXPECT_EQ(tick().action, Action::kWait);
  passes(5s);
  EXPECT_EQ(tick().action, Action::kFinish);
}

TEST_F(Rendezvous, AsksWorkersToWriteACheckpointOnAStop) {
  trains_on_two_hosts();
  state.stop = StopRequest{.reason = "SIGINT", .at = now};
  EXPECT_EQ(tick().action, Action::kAskToStop);
  EXPECT_EQ(tick().action, Action::kWait);
  for (const Rank rank : {0, 1}) {
    reports(rank, proto::OUTCOME_STOPPED);
    exits(rank, {});
  }
  EXPECT_EQ(tick().action, Action::kFinish);
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kStopped);
  EXPECT_EQ(verdict(state).message, "job stopped by SIGINT");
}

TEST_F(Rendezvous, EndsAStopByForceAfterItsTimeAndSaysWhom) {
  trains_on_two_hosts();
  state.stop = StopRequest{.reason = "SIGTERM", .at = now};
  tick();
  reports(0, proto::OUTCOME_STOPPED);
  exits(0, {});
  passes(60s);
  EXPECT_EQ(tick().action, Action::kTerminate);
  exits(1, {.signal = SIGTERM});
  EXPECT_EQ(tick().action, Action::kFinish);
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kFailed);
  EXPECT_THAT(verdict(state).message,
              HasSubstr("rank 1 (host b, slot 0, pid 101) had to be ended"));
}

TEST_F(Rendezvous, NamesAnAgentThatIsSilentDuringAStop) {
  config.stop = 600s;
  trains_on_two_hosts();
  state.stop = StopRequest{.reason = "SIGTERM", .at = now};
  tick();
  passes(29s);
  state.hosts[1].last_heard -= 29s;
  EXPECT_EQ(tick().action, Action::kWait);
  now += 1s;
  EXPECT_EQ(tick().action, Action::kFail);
  EXPECT_THAT(verdict(state).message, HasSubstr("host b: its agent has been silent for 30 s"));
}

TEST_F(Rendezvous, WaitsForNoCheckpointAfterASecondStop) {
  trains_on_two_hosts();
  state.stop = StopRequest{.reason = "SIGINT", .at = now};
  tick();
  state.stop->urgent = true;
  EXPECT_EQ(tick().action, Action::kTerminate);
}

TEST_F(Rendezvous, EndsAtOnceOnAStopBeforeTheStart) {
  expect_hosts({{"a", 1}});
  state.stop = StopRequest{.reason = "SIGINT", .at = now};
  EXPECT_EQ(tick().action, Action::kFinish);
  EXPECT_EQ(verdict(state).message, "job stopped by SIGINT before training began");
}

TEST_F(Rendezvous, DoesNotWaitForWorkersThatStillJoinOnAStop) {
  expect_hosts({{"a", 2}});
  registers("a");
  tick();
  joins(0);
  state.stop = StopRequest{.reason = "SIGINT", .at = now};
  EXPECT_EQ(tick().action, Action::kTerminate);
  exits(0, {.signal = SIGTERM});
  exits(1, {.signal = SIGTERM});
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kStopped);
}

TEST_F(Rendezvous, ReportsAFailureDuringAStopAsAFailure) {
  trains_on_two_hosts();
  state.stop = StopRequest{.reason = "SIGINT", .at = now};
  tick();
  reports(1, proto::OUTCOME_FAILED, "work_dirs/job: no space left on device");
  exits(1, {.code = 1});
  reports(0, proto::OUTCOME_STOPPED);
  exits(0, {});
  EXPECT_EQ(tick().action, Action::kFinish);
  EXPECT_THAT(verdict(state).message, HasSubstr("no space left"));
}

TEST_F(Rendezvous, ReportsACheckpointThatFailsAfterSigtermAsAFailure) {
  trains_on_two_hosts();
  state.stop = StopRequest{.reason = "pfcctl stop", .urgent = true, .at = now};
  EXPECT_EQ(tick().action, Action::kTerminate);
  reports(1, proto::OUTCOME_COMM_FAILED, "rank 0 is gone");
  exits(1, {.code = 4});
  reports(0, proto::OUTCOME_FAILED, "work_dirs/job: not a directory");
  exits(0, {.code = 2});
  EXPECT_EQ(tick().action, Action::kFinish);
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kFailed);
  EXPECT_THAT(verdict(state).message, HasSubstr("not a directory"));
}

TEST_F(Rendezvous, DoesNotTakeALostPeerForAWorkerThatHasSavedItsState) {
  trains_on_two_hosts();
  state.stop = StopRequest{.reason = "pfcctl stop", .urgent = true, .at = now};
  tick();
  for (const Rank rank : {0, 1}) {
    reports(rank, proto::OUTCOME_COMM_FAILED, "a peer is gone");
    exits(rank, {.code = 4});
  }
  EXPECT_EQ(tick().action, Action::kFinish);
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kFailed);
}

TEST_F(Rendezvous, WantsWorkersAnewWhenTheirAgentIsReplacedBeforeAllHaveJoined) {
  expect_hosts({{"a", 1}, {"b", 2}});
  registers("a");
  registers("b");
  tick();
  joins(1);
  agent_replaced(state, *find_host(state, "b"), now);
  EXPECT_EQ(state.workers.at(0).incarnation, 1);
  for (const Rank rank : {1, 2}) {
    EXPECT_EQ(state.workers.at(rank).incarnation, 2);
    EXPECT_FALSE(state.workers.at(rank).joined);
  }
  EXPECT_EQ(tick().action, Action::kWait);
  EXPECT_EQ(find_worker(state, *find_host(state, "b"), 1, 1), nullptr);
  EXPECT_EQ(find_worker(state, *find_host(state, "b"), 1, 2), &state.workers.at(2));
  EXPECT_EQ(find_worker(state, *find_host(state, "b"), 2, 2), nullptr);
}

TEST_F(Rendezvous, LosesNothingWhenAnAgentIsReplacedBeforeTheStart) {
  expect_hosts({{"a", 1}, {"b", 1}});
  registers("a");
  agent_replaced(state, *find_host(state, "a"), now);
  registers("b");
  EXPECT_EQ(tick().action, Action::kStartGeneration);
}

TEST_F(Rendezvous, LosesTheWorkersOfAnAgentThatIsReplacedWhileTheyTrain) {
  trains_on_two_hosts();
  agent_replaced(state, *find_host(state, "b"), now);
  EXPECT_EQ(verdict(state).message,
            "job failed: host b: its pfc-agent was started again, and its workers have ended with "
            "the old one");
  EXPECT_TRUE(state.workers.at(1).exit);
  EXPECT_FALSE(state.workers.at(0).exit);
}

TEST_F(Rendezvous, KeepsItsReasonWhileNothingChanges) {
  trains_on_two_hosts();
  const std::string before = tick().reason;
  passes(7s);
  EXPECT_EQ(tick().reason, before);
}

TEST_F(Rendezvous, SaysThatAHostDoesNotResolveInsteadOfWhatToRunThere) {
  expect_hosts({{"a", 1}, {"bb", 1}});
  find_host(state, "bb")->resolves = false;
  registers("a");
  passes(60s);
  tick();
  EXPECT_EQ(verdict(state).message,
            "job failed: host bb: no agent has registered after 60 s; the name \"bb\" does not "
            "resolve on this machine; check its spelling in --hosts");
}

TEST_F(Rendezvous, ReportsTheSameFailureOfManyRanksOnce) {
  expect_hosts({{"a", 8}});
  registers("a");
  tick();
  for (const Rank rank : {0, 1, 2, 5, 7}) reports(rank, proto::OUTCOME_FAILED, "rec: no such file");
  reports(3, proto::OUTCOME_COMM_FAILED, "all_gather: rank 0 is gone");
  EXPECT_EQ(verdict(state).message, "job failed: ranks 0-2, 5, 7: rec: no such file");
  EXPECT_THAT(failure_lines(state),
              ElementsAre("ranks 0-2, 5, 7: rec: no such file",
                          "rank 3 (host a, slot 3, pid 103): all_gather: rank 0 is gone"));
}

TEST(Apply, FailsOnceAndMarksTheSignalsThatWereSent) {
  ClusterState state;
  const TimePoint now{5s};
  apply(state, {.action = Action::kFail, .failure = Failure{.who = "host a", .what = "late"}}, now);
  apply(state, {.action = Action::kTerminate}, now);
  apply(state, {.action = Action::kKill}, now + 1s);
  EXPECT_THAT(failure_lines(state), ElementsAre("host a: late"));
  EXPECT_EQ(state.terminated_at, now);
  EXPECT_EQ(state.killed_at, now + 1s);
}

TEST(AssignRanks, FillsEachHostBeforeTheNextInTheOrderGiven) {
  const std::vector<HostState> hosts{{.name = "b", .slots = 2}, {.name = "a", .slots = 1}};
  EXPECT_THAT(assign_ranks(hosts), ElementsAre(Member{.rank = 0, .host = "b", .slot = 0},
                                               Member{.rank = 1, .host = "b", .slot = 1},
                                               Member{.rank = 2, .host = "a", .slot = 0}));
  EXPECT_TRUE(assign_ranks({}).empty());
}

}  // namespace
}  // namespace pfc
