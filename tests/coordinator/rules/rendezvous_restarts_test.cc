// Tests how decide() handles a lost generation if restarts are left: which workers stay, which are
// replaced, what it waits for, and which failures are permanent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/rules/rendezvous_fixture.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Restarts : public testing::Rendezvous {
 protected:
  Restarts() {
    config.max_restarts = 2;
    config.elastic.first_pause = 0ms;
  }

  void loses(Rank rank) { exits(rank, {.signal = SIGKILL}); }
  void falls_silent(const std::string& host) {
    passes(30s);
    find_host(state, host)->last_heard -= 30s;
  }
  void all_join() {
    for (const WorkerState& worker : state.job.current.workers) joins(worker.rank);
  }
};

TEST_F(Restarts, ReplacesAWorkerThatWasKilledAndKeepsTheOthers) {
  trains_on_two_hosts();
  loses(1);
  EXPECT_THAT(begins(), ElementsAre(Member{.rank = 0, .host = "a", .slot = 0, .survivor = 1},
                                    Member{.rank = 1, .host = "b", .slot = 0, .survivor = 0}));
  EXPECT_EQ(state.job.current.number, 2);
  EXPECT_EQ(state.job.current.workers[0].incarnation, 1);
  EXPECT_EQ(state.job.current.workers[0].pid, 100);
  EXPECT_EQ(state.job.current.workers[1].incarnation, 2);
  EXPECT_EQ(state.job.current.workers[1].pid, 201);
}

TEST_F(Restarts, EndsImmediatelyIfAWorkerCannotBeStarted) {
  for (const int code : {126, 127}) {
    state = {};
    expect_hosts({{"a", 1}, {"b", 1}});
    registers("a");
    registers("b");
    ASSERT_EQ(does(), "start");
    exits(1, {.code = code}, {"pfc-worker: error while loading shared libraries: libfoo.so"});
    EXPECT_EQ(does(), "terminate");
    EXPECT_THAT(state.job.current.incidents.front().what, HasSubstr("libfoo.so"));
  }
}

TEST_F(Restarts, EndsIfAWorkerFailsThreeTimesInTheSameWayBeforeJoining) {
  config.max_restarts = 20;
  trains_on_two_hosts();
  exits(1, {.code = 3});
  ASSERT_EQ(does(), "start") << "the worker had joined";
  for (int time = 1; time <= 2; ++time) {
    exits(1, {.code = 3});
    ASSERT_EQ(does(), "start") << time;
  }
  exits(1, {.code = 3});
  EXPECT_EQ(does(), "blame");
  EXPECT_THAT(state.job.current.incidents.back().what,
              HasSubstr("happened 3 times before the worker joined: check the program and its"));
}

TEST_F(Restarts, ResetsTheStateOfWorkersForTheNextGeneration) {
  trains_on_two_hosts();
  progresses(0, 7, "forward");
  leaves(0);
  loses(1);
  EXPECT_EQ(does(), "start");
  EXPECT_TRUE(state.job.current.incidents.empty());
  EXPECT_FALSE(state.job.current.workers[0].joined);
  EXPECT_FALSE(state.job.current.workers[0].left);
  EXPECT_EQ(state.job.current.workers[0].progress.step(), 0);
  EXPECT_EQ(tick().reason, "waiting for workers to join");
  all_join();
  EXPECT_EQ(tick().reason, "training");
}

TEST_F(Restarts, ReplacesAWorkerThatDiesBeforeItHasJoinedAgain) {
  trains_on_two_hosts();
  loses(1);
  EXPECT_EQ(does(), "start");
  loses(0);
  EXPECT_EQ(tick().reason, "waiting for workers to join");
  EXPECT_EQ(state.job.current.number, 2);
  EXPECT_FALSE(state.job.current.workers[0].exit);
  EXPECT_EQ(state.job.current.workers[0].incarnation, 3);
  EXPECT_EQ(state.job.current.workers[1].incarnation, 2);
}

TEST_F(Restarts, UsesAnotherRestartWhenTheReplacementWorkerDiesToo) {
  trains_on_two_hosts();
  loses(1);
  EXPECT_EQ(does(), "start");
  loses(0);
  loses(0);
  EXPECT_EQ(does(), "start");
  EXPECT_EQ(state.job.restarts, 2);
}

TEST_F(Restarts, UsesAnotherRestartWhenAWorkerThatHasJoinedAgainDies) {
  trains_on_two_hosts();
  loses(1);
  EXPECT_EQ(does(), "start");
  joins(0);
  loses(0);
  EXPECT_EQ(does(), "start");
  EXPECT_EQ(state.job.restarts, 2);
}

TEST_F(Restarts, RecordsTheFailureThatEndedAGeneration) {
  trains_on_two_hosts();
  leaves(0);
  loses(1);
  tick();
  ASSERT_EQ(state.job.restarts, 1);
  EXPECT_EQ(state.job.last_restart->text(),
            "rank 1 (host b, slot 0, pid 101): killed by signal 9 (SIGKILL)");
}

TEST_F(Restarts, EndsTheJobWhenAllRestartsAreSpent) {
  config.max_restarts = 1;
  trains_on_two_hosts();
  loses(1);
  EXPECT_EQ(does(), "start");
  all_join();
  loses(0);
  EXPECT_EQ(does(), "wait");
  passes(5s);
  EXPECT_EQ(does(), "terminate");
  EXPECT_THAT(verdict(state).message, HasSubstr("rank 0"));
  EXPECT_THAT(verdict(state).message, HasSubstr("(after 1 restart)"));
}

TEST_F(Restarts, DoesNotRestartAfterAPermanentFailure) {
  trains_on_two_hosts();
  reports(1, proto::OUTCOME_BAD_INPUT, "train.rec: no such file");
  EXPECT_FALSE(may_restart(state, config));
  passes(5s);
  EXPECT_EQ(does(), "terminate");
}

TEST_F(Restarts, RestartsAfterATransientFailure) {
  trains_on_two_hosts();
  reports(1, proto::OUTCOME_FAILED, "CUDA: unspecified launch failure");
  EXPECT_EQ(begins().at(1).survivor, 0);
}

TEST_F(Restarts, DoesNotRestartIfAWorkerHasCompleted) {
  trains_on_two_hosts();
  reports(0, proto::OUTCOME_COMPLETED);
  loses(1);
  EXPECT_FALSE(may_restart(state, config));
}

TEST_F(Restarts, DoesNotRestartAfterAStop) {
  trains_on_two_hosts();
  state.job.stop = StopRequest{.reason = "SIGINT", .at = now};
  loses(1);
  EXPECT_FALSE(may_restart(state, config));
}

TEST_F(Restarts, DoesNotRestartIfAHostNeverRegistered) {
  expect_hosts({{"a", 1}});
  passes(60s);
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(does(), "finish");
}

TEST_F(Restarts, WaitsForTheCauseWhenWorkersHaveOnlyLostAPeer) {
  trains_on_two_hosts();
  leaves(0);
  EXPECT_EQ(tick().reason, "a worker has lost its peers; waiting for the cause");
  passes(10ms);
  loses(1);
  EXPECT_EQ(begins().at(0).survivor, 1);
}

TEST_F(Restarts, KeepsAllWorkersIfNoneIsToBlame) {
  trains_on_two_hosts();
  leaves(0);
  leaves(1);
  passes(5s);
  const std::vector<Member> members = begins();
  EXPECT_EQ(members.at(0).survivor, 1);
  EXPECT_EQ(members.at(1).survivor, 1);
}

TEST_F(Restarts, ReplacesTheStuckWorkerThatItsPeersHaveLost) {
  trains_on_two_hosts();
  progresses(1, 3, "optimizer");
  passes(1s);
  leaves(0);
  passes(5s);
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(begins().at(1).survivor, 0);
  EXPECT_THAT(state.job.last_restart->what, HasSubstr("alive, but stuck"));
}

TEST_F(Restarts, ReplacesASilentWorker) {
  trains_on_two_hosts();
  passes(30s, 1);
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(begins().at(1).survivor, 0);
}

TEST_F(Restarts, NamesEverySilentWorkerAtOnce) {
  expect_hosts({{"a", 3}});
  registers("a");
  tick();
  all_join();
  now += 30s;
  state.hosts[0].last_heard = state.job.current.workers[0].last_heard = now;
  EXPECT_EQ(does(), "blame, blame");
  const std::vector<Member> members = begins();
  EXPECT_EQ(members.at(0).survivor, 1);
  EXPECT_EQ(members.at(1).survivor, 0);
  EXPECT_EQ(members.at(2).survivor, 0);
}

TEST_F(Restarts, WaitsForASilentHostToRegisterAgain) {
  trains_on_two_hosts();
  falls_silent("b");
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(tick().reason, "waiting for b to register again");
  registers("b");
  const std::vector<Member> members = begins();
  EXPECT_EQ(members.at(0).survivor, 1);
  EXPECT_EQ(members.at(1).survivor, 0) << "a worker of a lost host does not stay";
}

TEST_F(Restarts, EndsTheJobIfAHostDoesNotReturn) {
  trains_on_two_hosts();
  falls_silent("b");
  EXPECT_EQ(does(), "blame");
  passes(60s);
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(does(), "terminate");
  EXPECT_THAT(incident_lines(state.job.current).back(),
              HasSubstr("b has not registered again after 60 s"));
}

TEST_F(Restarts, ReplacesAWorkerThatDoesNotJoinTheNextGeneration) {
  trains_on_two_hosts();
  loses(1);
  tick();
  joins(1);
  passes(60s);
  EXPECT_EQ(does(), "blame");
  const std::vector<Member> members = begins();
  EXPECT_EQ(members.at(0).survivor, 0);
  EXPECT_EQ(members.at(1).survivor, 2);
}

TEST_F(Restarts, ReplacesTheWorkersOfAnAgentThatWasStartedAgain) {
  trains_on_two_hosts();
  agent_replaced(state, state.hosts[1], now);
  const std::vector<Member> members = begins();
  EXPECT_EQ(members.at(0).survivor, 1);
  EXPECT_EQ(members.at(1).survivor, 0);
}

TEST_F(Restarts, SaysThatAJobWasStoppedWhileAGenerationBegan) {
  trains_on_two_hosts();
  loses(1);
  tick();
  state.job.stop = StopRequest{.reason = "SIGINT", .at = now};
  EXPECT_EQ(does(), "terminate");
  loses(0);
  loses(1);
  EXPECT_EQ(does(), "finish");
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kStopped);
  EXPECT_EQ(verdict(state).message,
            "job stopped by SIGINT while generation 2 began; the newest checkpoint is from an "
            "earlier generation");
}

}  // namespace
}  // namespace pfc
