// Tests how a job begins, runs and completes: what decide() waits for and names as missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/rules/status.h"
#include "tests/coordinator/rules/rendezvous_fixture.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Rendezvous;

TEST_F(Rendezvous, WaitsForEveryHostAndNamesTheMissing) {
  expect_hosts({{"a", 8}, {"b", 8}});
  EXPECT_EQ(tick().reason, "waiting for a, b to register");
  registers("a");
  EXPECT_EQ(tick().reason, "waiting for b to register");
}

TEST_F(Rendezvous, StartsTheFirstGenerationWhenAllHostsHaveRegistered) {
  expect_hosts({{"a", 2}, {"b", 1}});
  registers("b");
  registers("a");
  EXPECT_EQ(begins(), assign_ranks(state.hosts));
  EXPECT_EQ(state.job.current.number, 1);
}

TEST_F(Rendezvous, FailsWithTheCommandToRunWhenAHostDoesNotRegister) {
  expect_hosts({{"a", 1}, {"b", 1}});
  registers("a");
  passes(59s);
  EXPECT_EQ(does(), "wait");
  passes(1s);
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(does(), "finish");
  EXPECT_TRUE(verdict(state).at_start);
  EXPECT_EQ(verdict(state).message,
            "job failed: host b: no agent has registered after 60 s; run there: pfc-agent "
            "--coordinator 10.0.0.1:7450 --host b");
}

TEST_F(Rendezvous, NamesTheRefusedAgentIfAHostHasNoAgent) {
  expect_hosts({{"a", 1}, {"b", 1}});
  registers("a");
  state.refused_agent = "host NODE (10.0.0.7) is not in the coordinator's --hosts";
  passes(60s);
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(does(), "finish");
  EXPECT_THAT(verdict(state).message,
              HasSubstr("no agent has registered after 60 s; an agent was refused: host NODE "
                        "(10.0.0.7) is not in the coordinator's --hosts; run there: "));
}

TEST_F(Rendezvous, NamesTheAgentsThatDoNotEndWithTheJob) {
  expect_hosts({{"a", 1}, {"b", 1}, {"c", 1}});
  EXPECT_EQ(staying_agents(state), "");
  for (const char* host : {"a", "b", "c"}) registers(host);
  find_host(state, "a")->once = true;
  EXPECT_THAT(staying_agents(state), HasSubstr("the agents of hosts b, c wait for the next job"));
  find_host(state, "b")->once = true;
  EXPECT_THAT(staying_agents(state),
              HasSubstr("the agent of host c waits for the next job: to end "));
  find_host(state, "c")->once = true;
  EXPECT_EQ(staying_agents(state), "");
}

TEST_F(Rendezvous, NamesTheFirstOfManyMissingHosts) {
  std::vector<std::pair<std::string, int>> hosts;
  for (int i = 0; i < 2'000; ++i) hosts.emplace_back("h" + std::to_string(i), 1);
  expect_hosts(hosts);
  EXPECT_THAT(tick().reason, HasSubstr("h14, h15 and 1984 more to register"));
}

TEST_F(Rendezvous, DoesNotAskForASecondAgentOnThisMachine) {
  expect_hosts({{"a", 1}});
  find_host(state, "a")->local = true;
  passes(60s);
  tick();
  EXPECT_THAT(verdict(state).message, HasSubstr("the pfc-agent that was started here runs, but has "
                                                "not connected; a limit of threads"));
}

TEST_F(Rendezvous, ReportsAnUnresolvedHostInsteadOfItsJoinCommand) {
  expect_hosts({{"a", 1}, {"bb", 1}});
  find_host(state, "bb")->resolves = false;
  registers("a");
  passes(60s);
  tick();
  EXPECT_EQ(verdict(state).message,
            "job failed: host bb: no agent has registered after 60 s; the name \"bb\" does not "
            "resolve on this machine; check its spelling in --hosts");
}

TEST_F(Rendezvous, SaysThatNoNameServerHasAnsweredAndWhatToRun) {
  expect_hosts({{"a", 1}, {"bb", 1}});
  find_host(state, "bb")->answered = false;
  passes(60s);
  tick();
  EXPECT_THAT(verdict(state).message,
              HasSubstr("hosts a, bb: no agent has registered after 60 s; no name server has "
                        "answered for its name (check /etc/resolv.conf, or give an IPv4 address); "
                        "run there: pfc-agent --coordinator 10.0.0.1:7450 --host bb"));
}

TEST_F(Rendezvous, StatusNamesTheRefusedAgentWhileAHostHasNoAgent) {
  expect_hosts({{"a", 1}, {"b", 1}});
  registers("a");
  state.refused_agent = "host NODE (10.0.0.7) is not in the coordinator's --hosts";
  const auto reason = [&] {
    return make_status(state, config, {}, tick().reason, false, now).reason();
  };
  EXPECT_EQ(reason(), "waiting for b to register; an agent was refused: " + state.refused_agent);
  registers("b");
  EXPECT_EQ(reason(), "all hosts have registered");
}

TEST_F(Rendezvous, NamesAWorkerThatDoesNotJoin) {
  expect_hosts({{"a", 1}, {"b", 1}});
  registers("a");
  registers("b");
  tick();
  joins(0);
  passes(60s);
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(does(), "terminate");
  EXPECT_EQ(verdict(state).message,
            "job failed: rank 1 (host b, slot 0, pid 101): has not joined after 60 s");
}

TEST_F(Rendezvous, NamesAWorkerThatDoesNotReachItsFirstStep) {
  trains_on_two_hosts();
  starts(1, "opening /data");
  passes(1s);
  starts(0, "connecting to the other workers");
  passes(59s);
  EXPECT_EQ(does(), "wait") << "rank 0 has made progress since";
  passes(1s);
  EXPECT_EQ(does(), "blame");
  EXPECT_TRUE(verdict(state).at_start);
  EXPECT_EQ(verdict(state).message,
            "job failed: rank 1 (host b, slot 0, pid 101): has not begun to train: no progress for "
            "60 s in: opening /data; --start-timeout sets this limit");
}

TEST_F(Rendezvous, WaitsForALongStartThatProgresses) {
  trains_on_two_hosts();
  starts(0, "connecting to the other workers");
  for (int percent = 0; percent < 100; ++percent) {
    starts(1, "scanning /data/train.rec: " + std::to_string(percent) + " %");
    passes(50s);
    ASSERT_EQ(does(), "wait");
  }
  for (int work = 1; work < 100; ++work) {
    starts(1, "loading weights", work);
    passes(50s);
    ASSERT_EQ(does(), "wait") << "the worker computes or reads";
  }
  progresses(0, 0, "forward");
  progresses(1, 0, "forward");
  passes(120s);
  EXPECT_EQ(does(), "wait") << "no limit on the duration of a step";
}

TEST_F(Rendezvous, RepeatsTheSameReasonWhileNothingChanges) {
  trains_on_two_hosts();
  const std::string before = tick().reason;
  passes(7s);
  EXPECT_EQ(tick().reason, before);
}

TEST_F(Rendezvous, CompletesWhenEveryRankHasReportedSuccessAndExited) {
  trains_on_two_hosts();
  reports(0, proto::OUTCOME_COMPLETED);
  exits(0, {});
  EXPECT_EQ(does(), "wait");
  reports(1, proto::OUTCOME_COMPLETED);
  exits(1, {});
  EXPECT_EQ(does(), "finish");
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kCompleted);
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
