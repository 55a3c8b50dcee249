// Tests generations that grow and shrink: hosts are missing, are lost, are drained, and come back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/rules/elastic/failure_count.h"
#include "tests/coordinator/rules/rendezvous_fixture.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class ElasticRendezvous : public testing::Rendezvous {
 protected:
  ElasticRendezvous() {
    config.max_restarts = 5;
    config.elastic.min_workers = 4;
  }

  void trains_on_three_hosts() {
    expect_hosts({{"a", 2}, {"b", 2}, {"c", 2}});
    for (const char* name : {"a", "b", "c"}) registers(name);
    ASSERT_EQ(does(), "start");
    all_train();
  }
  void all_train() {
    for (const WorkerState& worker : state.job.current.workers) {
      joins(worker.rank);
      progresses(worker.rank, 1, "forward");
    }
    saves(1);
  }
  void loses(const std::string& host) {
    passes(30s);
    find_host(state, host)->last_heard -= 30s;
    ASSERT_EQ(does(), "blame");
  }
  /// Host a has the newest checkpoint in an output folder that no other host shares.
  void loses_the_only_host_with_the_checkpoint() {
    trains_on_three_hosts();
    saves(30);
    state.job.saved.checkpoint_step = 30;
    state.job.saved.checkpoint_host = "a";
    loses("a");
  }
  /// Host b is lost, and the job continues with the other four workers.
  void goes_on_without_b() {
    loses("b");
    passes(10s);
    ASSERT_EQ(begins().size(), 4U);
    all_train();
  }
  /// Only host a has the checkpoint, and all workers have the snapshot of `step` in memory.
  void has_snapshot(std::int64_t step) {
    state.job.saved.checkpoint_step = 20;
    state.job.saved.checkpoint_host = "a";
    state.job.saved.memory_step = step;
    state.job.saved.memory_generation = state.job.current.number;
  }
  void leaves(const std::string& host) {
    host_leaves(*find_host(state, host), "SIGTERM", 20s, now);
  }
  void drains_one_of_three_hosts() {
    trains_on_three_hosts();
    leaves("c");
    EXPECT_EQ(does(), "regroup");
    EXPECT_EQ(does(), "ask to stop");
  }
};

TEST_F(ElasticRendezvous, BeginsWithoutAHostThatDoesNotRegisterInTime) {
  expect_hosts({{"a", 2}, {"b", 2}, {"c", 2}});
  registers("a");
  registers("b");
  passes(59s);
  EXPECT_EQ(tick().reason, "waiting for c to register");
  passes(1s);
  EXPECT_EQ(begins().size(), 4U);
}

TEST_F(ElasticRendezvous, DoesNotBeginWithFewerWorkersThanTheMinimum) {
  expect_hosts({{"a", 2}, {"b", 2}, {"c", 2}});
  registers("a");
  passes(60s);
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(does(), "finish");
}

TEST_F(ElasticRendezvous, DoesNotBeginIfAllHostsHaveFewerSlotsThanTheMinimum) {
  expect_hosts({{"a", 0}, {"b", 0}});
  registers("a", 2);
  registers("b", 1);
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(does(), "finish");
  EXPECT_EQ(verdict(state).message,
            "job failed: hosts: found 3 slots in total, too few for --min-workers 4; give smaller "
            "numbers, or more hosts");
}

TEST_F(ElasticRendezvous, DoesNotBeginIfAllSlotsWouldBeSpares) {
  config.elastic = {.spares = 2};
  expect_hosts({{"a", 0}, {"b", 0}});
  registers("a", 1);
  registers("b", 1);
  EXPECT_EQ(does(), "blame");
}

TEST_F(ElasticRendezvous, AHostThatComesBackWithFewerGpusHasFewerWorkers) {
  expect_hosts({{"a", 0}, {"b", 0}});
  registers("a", 4);
  registers("b", 4);
  ASSERT_EQ(does(), "start");
  all_train();
  loses("b");
  registers("b", 3);
  EXPECT_EQ(begins().size(), 7U);
  EXPECT_EQ(why_smaller(state, config.elastic, now),
            "7 of 8 workers: host b has 3 GPUs, and had 4");
  all_train();
  loses("b");
  registers("b", 0);
  EXPECT_EQ(does(), "wait") << "a pause before the second quick restart";
  passes(2s);
  EXPECT_EQ(begins().size(), 4U);
  all_train();
  passes(1s);
  registers("b", 4);
  saves(30);
  passes(1s);
  saves(40);
  EXPECT_EQ(regroups().size(), 8U);
}

TEST_F(ElasticRendezvous, AHostWithFewerGpusThanSlotsHasAsManyWorkersAsGpus) {
  state.job.device = DeviceChoice::kAuto;
  expect_hosts({{"a", 4}, {"b", 4}});
  registers("a", 4);
  registers("b", 1);
  EXPECT_EQ(begins().size(), 5U);
  EXPECT_EQ(why_smaller(state, config.elastic, now),
            "5 of 8 workers: host b has 1 GPU for 4 slots");
}

TEST_F(ElasticRendezvous, DoesNotBeginIfHostsHaveTooFewGpusForTheirSlots) {
  state.job.device = DeviceChoice::kAuto;
  expect_hosts({{"a", 4}, {"b", 4}});
  registers("a", 1);
  registers("b", 2);
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(does(), "finish");
  EXPECT_EQ(verdict(state).message,
            "job failed: hosts: found GPUs for 3 workers, expected at least 4; host a has 1 GPU "
            "for 4 slots; host b has 2 GPUs for 4 slots; give fewer slots, or --min-workers");
}

TEST_F(ElasticRendezvous, AHostWithoutAGpuHasAllItsSlotsIfTheJobMayUseTheCpu) {
  state.job.device = DeviceChoice::kAuto;
  expect_hosts({{"a", 2}, {"b", 2}});
  registers("a", 0);
  registers("b", 0);
  EXPECT_EQ(begins().size(), 4U);
}

TEST_F(ElasticRendezvous, DoesNotGrowBeyondWhatTheJobCanUse) {
  expect_hosts({{"a", 2}, {"b", 2}, {"c", 2}});
  registers("a");
  registers("b");
  passes(60s);
  ASSERT_EQ(begins().size(), 4U);
  all_train();
  state.job.most_workers = 5;
  passes(1s);
  registers("c");
  saves(30);
  passes(1s);
  saves(40);
  EXPECT_EQ(regroups().size(), 5U);
}

TEST_F(ElasticRendezvous, WaitsOnlyBrieflyForALostHost) {
  trains_on_three_hosts();
  loses("b");
  EXPECT_EQ(tick().reason, "waiting a moment for b to come back");
  passes(10s);
  EXPECT_THAT(begins(), ElementsAre(Member{.rank = 0, .host = "a", .slot = 0, .survivor = 1},
                                    Member{.rank = 1, .host = "a", .slot = 1, .survivor = 1},
                                    Member{.rank = 2, .host = "c", .slot = 0, .survivor = 1},
                                    Member{.rank = 3, .host = "c", .slot = 1, .survivor = 1}));
}

TEST_F(ElasticRendezvous, DoesNotWaitIfSparesReplaceTheHost) {
  config.elastic.spares = 2;
  trains_on_three_hosts();
  ASSERT_EQ(state.job.current.workers.size(), 4U);
  loses("b");
  EXPECT_EQ(begins().size(), 4U);
}

TEST_F(ElasticRendezvous, WaitsForALostHostThatItNeeds) {
  config.elastic.min_workers = 0;
  trains_on_three_hosts();
  loses("b");
  passes(20s);
  EXPECT_EQ(tick().reason, "waiting for b to register again");
}

TEST_F(ElasticRendezvous, AHostThatComesBackJoinsAtTheNextCheckpoint) {
  trains_on_three_hosts();
  goes_on_without_b();
  saves(10);
  passes(1s);
  registers("b");
  EXPECT_EQ(tick().reason, "training; host b joins at the next checkpoint");
  passes(1s);
  saves(20);
  // The workers have trained since that checkpoint, so they save once more.
  const std::vector<Member> members = regroups();
  ASSERT_EQ(members.size(), 6U);
  EXPECT_EQ(members[1].survivor, 1);
  EXPECT_EQ(members[2].survivor, 0);
  EXPECT_EQ(members[5].survivor, 1);
  EXPECT_EQ(state.job.restarts, 1) << "a planned change does not count as a restart";
}

TEST_F(ElasticRendezvous, AJoiningHostDoesNotReplaceABrieflySilentHost) {
  config.elastic.min_workers = 2;
  trains_on_three_hosts();
  goes_on_without_b();
  find_host(state, "b")->slots = 3;
  registers("b");
  passes(4s);
  find_host(state, "c")->last_heard -= 4s;
  saves(20);
  EXPECT_EQ(tick().reason, "training");
  passes(1s);
  EXPECT_EQ(regroups().size(), 7U);
}

// Another network replaces all processes, so no worker keeps its memory.
TEST_F(ElasticRendezvous, AHostThatChangesTheNetworkJoinsAfterAnExtraCheckpoint) {
  trains_on_three_hosts();
  goes_on_without_b();
  passes(1s);
  registers("b");
  state.network.changed = true;
  EXPECT_EQ(tick().reason, "training; host b joins at the next checkpoint");
  passes(1s);
  saves(20);
  EXPECT_EQ(does(), "regroup");
  EXPECT_EQ(does(), "ask to stop");
  for (WorkerState& worker : state.job.current.workers) worker_paused(worker);
  for (const Member& member : begins()) EXPECT_EQ(member.survivor, 0);
}

TEST_F(ElasticRendezvous, AHostJoinsAfterARequestedCheckpointIfTheJobWritesNoneForTenMinutes) {
  trains_on_three_hosts();
  goes_on_without_b();
  registers("b");
  passes(599s);
  EXPECT_EQ(does(), "wait");
  passes(1s);
  EXPECT_EQ(does(), "regroup");
  EXPECT_EQ(does(), "ask to stop");
  EXPECT_EQ(tick().reason, "host b joins: the workers write a checkpoint and continue");
  for (WorkerState& worker : state.job.current.workers) {
    ASSERT_TRUE(may_pause(state, worker));
    worker_paused(worker);
  }
  EXPECT_EQ(begins().size(), 6U);
}

TEST_F(ElasticRendezvous, NeverHasMoreWorkersThanTheMaximum) {
  config.elastic.max_workers = 5;
  trains_on_three_hosts();
  EXPECT_EQ(state.job.current.workers.size(), 5U);
  EXPECT_EQ(idle_slots(state, now), std::vector<std::string>{"slot 1 of host c"});
}

TEST_F(ElasticRendezvous, ADrainedHostLeavesAfterACheckpoint) {
  drains_one_of_three_hosts();
  EXPECT_EQ(does(), "wait");
  for (WorkerState& worker : state.job.current.workers) {
    EXPECT_EQ(may_pause(state, worker), worker.host != "c");
    if (worker.host != "c") worker_paused(worker);
  }
  for (const Rank rank : {4, 5}) {
    reports(rank, proto::OUTCOME_STOPPED);
    exits(rank, {});
  }
  EXPECT_EQ(begins().size(), 4U);
  EXPECT_EQ(restarts_left(state, config), 5);
}

TEST_F(ElasticRendezvous, ADrainedHostLeavesAfterItsGraceTimeWithoutACheckpoint) {
  drains_one_of_three_hosts();
  passes(20s);
  EXPECT_EQ(begins().size(), 4U);
}

TEST_F(ElasticRendezvous, TheNextGenerationWaitsForABrieflySilentAgent) {
  config.elastic.min_workers = 2;
  drains_one_of_three_hosts();
  for (WorkerState& worker : state.job.current.workers) worker_paused(worker);
  find_host(state, "b")->last_heard -= 4s;
  EXPECT_EQ(tick().reason, "waiting for hosts that do not answer");
  passes(1s);
  EXPECT_EQ(begins().size(), 4U);
}

TEST_F(ElasticRendezvous, TheJobEndsIfItNeedsTheDrainedHost) {
  config.elastic.min_workers = 0;
  trains_on_three_hosts();
  leaves("c");
  EXPECT_EQ(does(), "stop for host");
  EXPECT_EQ(does(), "ask to stop");
  EXPECT_TRUE(verdict(state).host_left);
}

TEST_F(ElasticRendezvous, AHostMayBeBrieflySilentWhileAnotherIsDrained) {
  trains_on_three_hosts();
  leaves("c");
  find_host(state, "b")->last_heard -= 4s;
  EXPECT_EQ(does(), "regroup");
}

TEST_F(ElasticRendezvous, AHostMayBeBrieflySilentBeforeTrainingBegins) {
  expect_hosts({{"a", 2}, {"b", 2}, {"c", 2}});
  for (const char* name : {"a", "b", "c"}) registers(name);
  ASSERT_EQ(does(), "start");
  leaves("c");
  find_host(state, "b")->last_heard -= 4s;
  EXPECT_EQ(tick().reason, "waiting for hosts that do not answer");
  passes(1s);
  EXPECT_EQ(begins().size(), 4U);
}

TEST_F(ElasticRendezvous, AStopEndsAJobWhoseWorkersHaveSavedForTheNextGeneration) {
  drains_one_of_three_hosts();
  for (WorkerState& worker : state.job.current.workers) {
    if (worker.host != "c") worker_paused(worker);
  }
  state.job.stop = StopRequest{.reason = "SIGINT", .at = now, .leaving = {}};
  for (const Rank rank : {4, 5}) {
    reports(rank, proto::OUTCOME_STOPPED);
    exits(rank, {});
  }
  EXPECT_EQ(does(), "terminate");
  for (const Rank rank : {0, 1, 2, 3}) exits(rank, {.code = 4});
  EXPECT_EQ(does(), "finish");
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kStopped);
}

TEST_F(ElasticRendezvous, ASilentHostWithoutAWorkerIsNotAFailure) {
  config.elastic.spares = 2;
  trains_on_three_hosts();
  passes(30s);
  find_host(state, "c")->last_heard -= 30s;
  EXPECT_EQ(does(), "release");
  EXPECT_FALSE(find_host(state, "c")->registered);
  EXPECT_EQ(tick().reason, "training");
}

TEST_F(ElasticRendezvous, ASilentHostGetsNoWorkers) {
  trains_on_three_hosts();
  const auto b_is_silent_for = [&](std::chrono::seconds time) {
    find_host(state, "b")->last_heard = now - time;
  };
  b_is_silent_for(3s);
  exits(0, {.signal = SIGKILL});
  EXPECT_EQ(tick().reason, "waiting a moment for b to come back");
  passes(10s);
  b_is_silent_for(13s);
  const std::vector<Member> members = begins();
  for (const Member& member : members) EXPECT_NE(member.host, "b");
  EXPECT_EQ(why_smaller(state, config.elastic, now), "4 of 6 workers: host b does not answer");
  EXPECT_EQ(members.size(), 4U);
}

TEST_F(ElasticRendezvous, WaitsForTheOnlyHostWithTheNewestCheckpoint) {
  loses_the_only_host_with_the_checkpoint();
  passes(20s);
  EXPECT_EQ(tick().reason,
            "waiting for host a, whose output folder has the newest checkpoint (step 30); restart "
            "its agent");
  registers("a");
  EXPECT_EQ(begins().size(), 6U);
}

TEST_F(ElasticRendezvous, EndsIfTheHostWithTheNewestCheckpointDoesNotReturn) {
  loses_the_only_host_with_the_checkpoint();
  passes(60s);
  EXPECT_EQ(does(), "blame");
  EXPECT_THAT(verdict(state).message,
              ::testing::HasSubstr("host a, whose output folder has the newest checkpoint (step "
                                   "30) did not return within --start-timeout; restart its agent"));
}

TEST_F(ElasticRendezvous, StopsTheJobWhenTheOnlyHostWithCheckpointsLeaves) {
  trains_on_three_hosts();
  state.job.saved.checkpoint_host = "a";
  leaves("c");
  EXPECT_EQ(does(), "regroup") << "another host may leave";
  state.job.current.regroup.reset();
  find_host(state, "c")->leaving.reset();
  leaves("a");
  EXPECT_EQ(does(), "stop for host");
  EXPECT_EQ(state.job.stop->reason,
            "host a is leaving (SIGTERM), and only its output folder has the checkpoints");
}

TEST_F(ElasticRendezvous, ASpareDoesNotTakeThePlaceOfTheHostWithTheNewestCheckpoint) {
  config.elastic.spares = 4;
  config.elastic.min_workers = 2;
  trains_on_three_hosts();
  ASSERT_EQ(state.job.current.workers.size(), 2U);
  state.job.saved.checkpoint_step = 30;
  state.job.saved.checkpoint_host = "a";
  exits(0, {.signal = SIGSEGV});
  exits(1, {.signal = SIGSEGV});
  EXPECT_EQ(begins().front().host, "a");
}

TEST_F(ElasticRendezvous, AnOutputFolderDoesNotCountAsSharedWhenOnlyOneHostIsLeft) {
  expect_hosts({{"a", 2}, {"b", 2}});
  config.elastic.min_workers = 2;
  registers("a");
  registers("b");
  ASSERT_EQ(does(), "start");
  all_train();
  proto::Progress progress;
  progress.set_output_unshared(true);
  checkpoint_reported(state, state.job.current.workers[0], progress);
  EXPECT_EQ(state.job.saved.checkpoint_host, "a") << "host a will have the first checkpoint";
  proto::Progress starting;
  starting.set_starting(true);
  checkpoint_reported(state, state.job.current.workers[0], starting);
  EXPECT_EQ(state.job.saved.checkpoint_host, "a") << "the next generation has not searched yet";
  progress.set_checkpoint_step(10);
  checkpoint_reported(state, state.job.current.workers[0], progress);
  EXPECT_EQ(state.job.saved.checkpoint_host, "a");
  EXPECT_EQ(state.job.saved.planned_workers, 0) << "nothing was trained";
  progress.set_images_seen(16);
  checkpoint_reported(state, state.job.current.workers[0], progress);
  state.job.current.workers.resize(2);  // the workers of host a
  progress.set_checkpoint_step(20);
  progress.set_output_unshared(false);
  checkpoint_reported(state, state.job.current.workers[0], progress);
  EXPECT_EQ(state.job.saved.checkpoint_host, "a");
  EXPECT_EQ(state.job.saved.checkpoint_step, 20);
  EXPECT_EQ(state.job.saved.planned_workers, 4);
}

TEST_F(ElasticRendezvous, LearnsWhichHostHasTheCheckpointWhenOthersJoin) {
  expect_hosts({{"a", 2}, {"b", 2}});
  config.elastic.min_workers = 2;
  registers("a");
  passes(config.limits.start);
  ASSERT_EQ(begins().size(), 2U);
  all_train();
  proto::Progress progress;
  progress.set_checkpoint_step(10);
  checkpoint_reported(state, state.job.current.workers[0], progress);
  EXPECT_EQ(state.job.saved.checkpoint_host, "") << "the host is not known yet";
  const std::vector<std::string> hosts{"a"};
  FailureHistory blame = leave_hosts_out(state, hosts, "its workers were killed", now);
  const Plan plan = plan_members(state, blame, config.elastic, now);
  ASSERT_EQ(plan.size(), 1);
  EXPECT_EQ(plan.members[0].host, "a") << "only host a may have the checkpoint";
  registers("b");
  passes(1s);
  saves(20);
  ASSERT_EQ(regroups().size(), 4U);
  progress.set_checkpoint_step(0);
  progress.set_output_unshared(true);
  checkpoint_reported(state, state.job.current.workers[0], progress);
  EXPECT_EQ(state.job.saved.checkpoint_host, "a");
  EXPECT_EQ(state.job.saved.checkpoint_step, 10);
}

TEST_F(ElasticRendezvous, DoesNotWaitForACheckpointIfWorkersHaveANewerStateInMemory) {
  trains_on_three_hosts();
  has_snapshot(20);
  loses("a");
  passes(10s);
  EXPECT_EQ(begins().size(), 4U);
}

// The rows of a are replicated to b, and those of b to c.
TEST_F(ElasticRendezvous, WaitsForTheCheckpointIfTheCopiesInMemoryAreLostToo) {
  config.elastic.min_workers = 2;
  trains_on_three_hosts();
  has_snapshot(25);
  loses("a");
  loses("b");
  passes(10s);
  EXPECT_EQ(tick().reason,
            "waiting for host a, whose output folder has the newest checkpoint (step 20); restart "
            "its agent");
  registers("a");
  EXPECT_EQ(begins().size(), 4U);
}

TEST_F(ElasticRendezvous, WaitsForTheCheckpointIfOnlyNewWorkersAreLeft) {
  config.elastic.min_workers = 2;
  trains_on_three_hosts();
  goes_on_without_b();
  has_snapshot(25);
  passes(1s);
  registers("b");
  passes(1s);
  saves(30);
  ASSERT_EQ(regroups().size(), 6U) << "the rows of b have no copies yet";
  loses("a");
  loses("c");
  passes(10s);
  EXPECT_EQ(tick().reason,
            "waiting for host a, whose output folder has the newest checkpoint (step 20); restart "
            "its agent");
}

TEST_F(ElasticRendezvous, WaitsForAsManyWorkersAsTheJobNeeds) {
  trains_on_three_hosts();
  state.job.least_workers = 5;
  loses("b");
  passes(20s);
  EXPECT_EQ(tick().reason, "waiting for b to register again; the job needs at least 5 workers");
}

// All workers stop, although the coordinator has not asked them to. This happens if SIGTERM is sent
// to one worker, or to an agent without a connection: all other workers stop too.
TEST_F(ElasticRendezvous, AnUnrequestedStopCountsAsALoss) {
  trains_on_three_hosts();
  for (const WorkerState& worker : state.job.current.workers) {
    reports(worker.rank, proto::OUTCOME_STOPPED);
    exits(worker.rank, {});
  }
  EXPECT_EQ(tick().reason, "a worker has lost its peers; waiting for the cause");
  passes(5s);
  EXPECT_EQ(begins().size(), 6U);
}

TEST_F(ElasticRendezvous, WorkersThatStopWithAFailedWorkerDoNotHideTheCause) {
  trains_on_three_hosts();
  for (const Rank rank : {1, 2, 3, 4, 5}) {
    reports(rank, proto::OUTCOME_STOPPED);
    exits(rank, {});
  }
  EXPECT_EQ(does(), "wait");
  reports(0, proto::OUTCOME_BAD_INPUT, "rec: damaged");
  exits(0, {.code = 4});
  EXPECT_EQ(does(), "finish");
  EXPECT_THAT(verdict(state).message, ::testing::EndsWith("rec: damaged"));
}

TEST_F(ElasticRendezvous, LosingTheLocalAgentIsTreatedAsALostHost) {
  config.elastic.max_workers = 4;
  trains_on_three_hosts();
  state.job.id = "job";
  EXPECT_FALSE(lose_agent_for_good(state, *find_host(state, "c"), config.elastic,
                                   "pfc-agent killed by signal 9", false, now))
      << "no worker runs there";
  EXPECT_EQ(tick().reason, "training");
  config.elastic.min_workers = 2;
  EXPECT_TRUE(lose_agent_for_good(state, *find_host(state, "b"), config.elastic,
                                  "pfc-agent killed by signal 9", false, now));
  passes(10s);
  EXPECT_EQ(begins().size(), 2U);
}

TEST_F(ElasticRendezvous, LosingTheLocalAgentEndsAJobThatNeedsItsHost) {
  trains_on_three_hosts();
  state.job.id = "job";
  config.elastic.min_workers = 6;
  EXPECT_TRUE(lose_agent_for_good(state, *find_host(state, "a"), config.elastic,
                                  "pfc-agent killed by signal 9", false, now));
  passes(5s);
  EXPECT_EQ(does(), "terminate");
}

// Slurm gives such a job new hosts only if its exit code says that it was drained (5).
TEST_F(ElasticRendezvous, ADrainDuringARestartStopsTheJob) {
  config.elastic.min_workers = 0;
  trains_on_three_hosts();
  loses("b");
  passes(20s);
  ASSERT_EQ(tick().reason, "waiting for b to register again");
  leaves("c");
  EXPECT_EQ(does(), "stop for host");
  EXPECT_EQ(does(), "terminate");
  for (const WorkerState& worker : state.job.current.workers) {
    if (!worker.exit) exits(worker.rank, {.signal = SIGTERM});
  }
  EXPECT_EQ(does(), "finish");
  EXPECT_EQ(verdict(state).kind, Verdict::Kind::kStopped);
  EXPECT_TRUE(verdict(state).host_left);
  EXPECT_THAT(verdict(state).message,
              ::testing::HasSubstr(", while the job restarted after host b"));
}

}  // namespace
}  // namespace pfc
