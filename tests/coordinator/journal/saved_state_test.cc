#include "coordinator/journal/saved_state.h"

#include <gtest/gtest.h>

#include <regex>

#include "coordinator/metrics/metrics.h"
#include "coordinator/rules/rendezvous.h"
#include "tests/coordinator/rules/rendezvous_fixture.h"
#include "tests/coordinator/taken_over.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

class SavedState : public testing::Rendezvous {
 protected:
  ClusterState again() const {
    return testing::taken_over(state, now, std::chrono::system_clock::now());
  }
  /// Replaces the coordinator by its successor.
  void killed_and_started_again() { state = again(); }
  void trains() {
    trains_on_two_hosts();
    progresses(0, 3, "forward");
    progresses(1, 3, "forward");
  }
};

TEST_F(SavedState, ContainsAllStateOfAGenerationThatDecisionsUse) {
  trains();
  state.job.restarts = 7;
  state.job.last_restart = Incident{.rank = 1, .who = "rank 1", .what = "crashed", .at = now};
  state.job.stop = StopRequest{.reason = "SIGTERM", .urgent = true, .at = now, .within = 3s};
  state.job.current.workers[1].exit = ProcessExit{.code = 3};
  state.job.current.workers[1].report =
      WorkerReport{.outcome = proto::OUTCOME_COMPLETED, .message = "", .at = now};
  const ClusterState copy = again();
  EXPECT_EQ(copy.job.current.number, 1);
  EXPECT_EQ(copy.job.current.joined, 2);
  EXPECT_EQ(copy.job.restarts, 7);
  EXPECT_EQ(copy.job.last_restart->text(), "rank 1: crashed");
  EXPECT_EQ(copy.job.last_restart->rank, 1);
  EXPECT_EQ(copy.job.stop->reason, "SIGTERM");
  EXPECT_TRUE(copy.job.stop->urgent);
  EXPECT_EQ(copy.job.stop->within, 3s);
  EXPECT_EQ(copy.job.current.workers[1].exit->code, 3);
  EXPECT_TRUE(has_ended_well(copy.job.current.workers[1]));
  EXPECT_EQ(copy.hosts[1].first_rank, 1);
  EXPECT_EQ(copy.hosts[1].incarnation, state.hosts[1].incarnation);
  EXPECT_TRUE(copy.hosts[0].registered);
}

TEST_F(SavedState, ContainsPlannedChangesOfAGeneration) {
  trains();
  state.hosts[1].leaving = Leaving{.reason = "SIGTERM", .within = 9s, .at = now};
  state.job.current.regroup = Regroup{.reason = "host b is leaving", .at = now, .within = 8s};
  state.job.current.workers[0].paused = true;
  state.job.saved = {.generation = 1,
                     .step = 40,
                     .at = now - 60s,
                     .checkpoint_step = 30,
                     .checkpoint_writer = "b",
                     .checkpoint_host = "b",
                     .planned_workers = 3};
  state.network = {.agents = {"x", "y"}, .ended_at = now, .failed = true, .apart = {"b"}};
  const ClusterState copy = again();
  EXPECT_EQ(copy.network.agents, state.network.agents);
  EXPECT_TRUE(copy.network.failed);
  EXPECT_EQ(copy.network.apart, state.network.apart);
  EXPECT_EQ(copy.hosts[1].leaving->reason, "SIGTERM");
  EXPECT_EQ(copy.hosts[1].leaving->within, 9s);
  EXPECT_FALSE(copy.hosts[0].leaving);
  EXPECT_EQ(copy.hosts[1].workers, 1);
  EXPECT_EQ(copy.job.current.regroup->reason, "host b is leaving");
  EXPECT_EQ(copy.job.current.regroup->within, 8s);
  EXPECT_TRUE(copy.job.current.workers[0].paused);
  EXPECT_FALSE(copy.job.current.workers[1].paused);
  EXPECT_EQ(copy.job.saved.generation, 1);
  EXPECT_EQ(copy.job.saved.step, 40);
  EXPECT_EQ(copy.job.saved.checkpoint_step, 30);
  EXPECT_EQ(copy.job.saved.checkpoint_host, "b");
  EXPECT_EQ(copy.job.saved.planned_workers, 3);
  EXPECT_NEAR(seconds_since(copy.job.saved.at, now), 60, 2);
}

TEST_F(SavedState, ContainsFailuresOfSlotsAndSpentRestarts) {
  trains();
  add_failure(state.job.blame, "b", 0, 2, "killed", now - 100s);
  leave_out(state.job.blame.records.front(), now - 100s);
  spend_restart(state.job.budget, 1s, now - 110s, now - 100s);
  spend_restart(state.job.budget, 1s, now - 110s, now - 100s);
  state.job.most_workers = 8;
  state.job.least_workers = 3;
  count_crash(state.job.budget, {.rank = 1, .workers = 2, .step = 7});
  state.job.current.counted = true;
  const ClusterState copy = again();
  EXPECT_TRUE(copy.job.current.counted);
  ASSERT_EQ(copy.job.blame.records.size(), 1);
  const FailureRecord& record = copy.job.blame.records.front();
  EXPECT_EQ(name_of(record), "slot 0 of host b");
  EXPECT_EQ(record.failures, 2);
  EXPECT_EQ(record.times_left_out, 1);
  EXPECT_EQ(record.cause, "killed");
  EXPECT_NEAR(seconds_since(now, *record.until), 200, 2);  // of 5 min, 100 s have passed
  EXPECT_TRUE(is_left_out(copy.job.blame, "b", 0, now));
  EXPECT_EQ(copy.job.most_workers, 8);
  EXPECT_EQ(copy.job.least_workers, 3);
  EXPECT_EQ(copy.job.budget.spent, 2);
  EXPECT_EQ(copy.job.budget.quick, state.job.budget.quick);
  EXPECT_NEAR(seconds_since(copy.job.budget.counted_at, now), 100, 2);
  EXPECT_EQ(copy.job.budget.same_crash, 1);
  EXPECT_EQ(copy.job.budget.last_crash, (CrashSite{.rank = 1, .workers = 2, .step = 7}));
}

TEST_F(SavedState, IsUnchangedAfterARestore) {
  trains();
  const ClusterState copy = again();
  for (std::size_t i = 0; i < state.hosts.size(); ++i) {
    EXPECT_EQ(saved(copy.hosts[i]), saved(state.hosts[i]));
  }
  for (std::size_t i = 0; i < state.job.current.workers.size(); ++i) {
    EXPECT_EQ(saved(copy.job.current.workers[i]), saved(state.job.current.workers[i]));
  }
}

TEST_F(SavedState, ContainsTheImagesSeenAndLostAndTheCauseOfTheLastRestart) {
  trains();
  pfc::Run run{.cause = "rank 1: crashed"};
  run.progress.count_on(2, 110, 40);
  const auto wall = std::chrono::system_clock::now();
  const std::string bytes = saved_run(state, run, now, wall);
  ClusterState copy;
  copy.hosts = state.hosts;
  pfc::Run restored;
  restore_run(copy, restored, bytes, now, wall);
  EXPECT_EQ(restored.cause, "rank 1: crashed");
  EXPECT_EQ(restored.progress.generation(), 2);
  EXPECT_EQ(restored.progress.images_seen(), 110);
  EXPECT_EQ(restored.progress.images_lost(), 40);
  const std::chrono::duration<double> ran = wall - restored.started;
  EXPECT_NEAR(ran.count(), seconds_since(state.job.started_at, now), 2);
  EXPECT_EQ(saved_run(copy, restored, now, wall), bytes);
}

TEST_F(SavedState, CanBeReadFromTruncatedBytes) {
  trains();
  state.job.stop = StopRequest{.reason = "SIGTERM", .at = now, .leaving = "b"};
  const auto wall = std::chrono::system_clock::now();
  const std::string whole = saved_run(state, pfc::Run{}, now, wall);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    ClusterState copy;
    pfc::Run run;
    restore_run(copy, run, whole.substr(0, bytes), now, wall);
    EXPECT_EQ(copy.job.id, state.job.id.substr(0, copy.job.id.size()));
  }
  ClusterState copy;
  pfc::Run run;
  restore_run(copy, run, whole.substr(0, whole.size() - 1), now, wall);
  EXPECT_EQ(copy.job.id, state.job.id);
  EXPECT_EQ(copy.job.stop->leaving, "b");
  EXPECT_EQ(worker_from("", now).host, "");
}

TEST_F(SavedState, ContinuesAGenerationThatTrains) {
  trains();
  killed_and_started_again();
  EXPECT_EQ(does(), "wait");
  EXPECT_EQ(tick().reason, "training");
  EXPECT_EQ(state.job.current.number, 1);
}

TEST_F(SavedState, BeginsAnotherGenerationWithoutARestartIfWorkersWereConnecting) {
  trains_on_two_hosts();
  config.max_restarts = 0;
  killed_and_started_again();
  const std::vector<Member> members = begins();
  EXPECT_EQ(members.size(), 2);
  EXPECT_EQ(members[0].survivor, 1);
  EXPECT_EQ(state.job.current.number, 2);
  EXPECT_EQ(state.job.restarts, 0);
  EXPECT_FALSE(state.job.current.lost);
}

TEST_F(SavedState, WaitsForAMissingHostBeforeItBeginsAgain) {
  trains_on_two_hosts();
  killed_and_started_again();
  state.hosts[1].registered = false;
  EXPECT_EQ(tick().reason, "waiting for b to register again");
  passes(config.limits.start);
  EXPECT_EQ(does(), "blame");
  EXPECT_FALSE(may_restart(state, config));
}

TEST_F(SavedState, LetsHostsJoinOnlyAfterTheirAgentsRegisterAgain) {
  config.elastic.min_workers = 1;
  expect_hosts({{"a", 1}, {"b", 1}, {"c", 1}});
  for (const char* name : {"a", "b"}) registers(name);
  passes(config.limits.start);
  ASSERT_EQ(begins().size(), 2U);
  for (const Rank rank : {0, 1}) {
    joins(rank);
    progresses(rank, 3, "forward");
  }
  registers("c");
  ASSERT_EQ(tick().reason, "training; host c joins at the next checkpoint");
  killed_and_started_again();
  EXPECT_EQ(tick().reason, "training");
  registers("c");
  EXPECT_EQ(tick().reason, "training; host c joins at the next checkpoint");
}

TEST_F(SavedState, ReadmitsAnExcludedSlotIfTooFewSlotsAreLeft) {
  trains_on_two_hosts();
  add_failure(state.job.blame, "b", 0, 2, "killed", now);
  leave_out(state.job.blame.records.front(), now);
  killed_and_started_again();
  EXPECT_EQ(tick().reason, "too few slots are left; using an excluded slot again");
}

TEST_F(SavedState, LimitsTheWaitForALostGpu) {
  trains_on_two_hosts();
  killed_and_started_again();
  HostState& host = state.hosts[1];
  host.counts_gpus = true;
  host.slots = 2;
  host.gpus = 1;
  EXPECT_EQ(tick().reason, "waiting for slots: found 2, expected at least 3");
  passes(config.limits.start);
  EXPECT_EQ(tick().reason,
            "coordinator: it was down while workers connected; there are slots for 2 workers, "
            "and at least 3 are needed");
}

TEST_F(SavedState, KeepsTheRunningTimeOfTheJob) {
  trains();
  now += 90s;
  EXPECT_NEAR(seconds_since(again().job.started_at, now), 90, 2);
}

TEST(SavedMetrics, ContinueCounting) {
  WorkerState worker{.rank = 0, .host = "a"};
  proto::Progress first, second;
  first.set_data_wait_seconds(0.5);
  first.set_steps(3);
  first.set_step_seconds(0.6);
  first.mutable_checkpoints()->set_count(1);
  first.mutable_checkpoints()->set_bytes(1'000);
  first.add_comm()->set_purpose("step");
  first.mutable_comm(0)->add_kinds()->set_kind("all_gather");
  first.mutable_comm(0)->mutable_kinds(0)->set_calls(2);
  first.mutable_comm(0)->mutable_kinds(0)->set_sent_bytes(100);
  first.add_phases()->set_phase("forward");
  first.mutable_phases(0)->set_seconds(0.03);
  second = first;
  second.set_data_wait_seconds(0.75);
  const TimePoint now = Clock::now();
  const auto text = [&](Metrics& metrics) {
    const std::string all = metrics.text({{}, {}, {}, {}, "training", now});
    // Removes values that differ between the two: those of the coordinator itself, gauges, and
    // fractions of a second in times.
    const std::regex other(
        "[^\n]*(process_|last_checkpoint_duration|last_checkpoint_size)[^\n]*\n");
    const std::regex moment("(last_checkpoint_timestamp_seconds [0-9]{6})[0-9.]*");
    return std::regex_replace(std::regex_replace(all, other, ""), moment, "$1");
  };
  Metrics unbroken, killed, next;
  for (Metrics* each : {&unbroken, &killed}) {
    each->add_progress(worker, first, now);
    each->count_job("completed");
    each->count_restart({.kind = Incident::Kind::kSilence});
  }
  next.restore(killed.saved(), now);
  EXPECT_EQ(text(next), text(unbroken));
  worker.progress = first;
  unbroken.add_progress(worker, second, now);
  next.add_progress(worker, second, now);
  EXPECT_EQ(text(next), text(unbroken));
}

TEST(SavedQueue, ContainsTheWholeJob) {
  const Job job = job_from(saved(Job{.id = "a",
                                     .file = "f",
                                     .json = R"({"output":"/out"})",
                                     .device = DeviceChoice::kCuda,
                                     .submitted = from_ms(5),
                                     .name = "night run",
                                     .submitter = "1f0c5ad2e6b7"}));
  EXPECT_EQ(job.id, "a");
  EXPECT_EQ(job.file, "f");
  EXPECT_EQ(job.json, R"({"output":"/out"})");
  EXPECT_EQ(job.output, "/out");
  EXPECT_EQ(job.device, DeviceChoice::kCuda);
  EXPECT_EQ(job.submitted, from_ms(5));
  EXPECT_EQ(job.name, "night run");
  EXPECT_EQ(job.submitter, "1f0c5ad2e6b7");
}

TEST_F(SavedState, LimitsRestoredTimesAfterTheClockWasChanged) {
  trains();
  state.job.saved.at = now - 60s;
  state.job.budget.not_before = now + 5s;
  const auto year = std::chrono::hours{24 * 365};
  for (const auto off : {-100 * year, 100 * year}) {  // the clock was changed
    const auto wall = std::chrono::system_clock::now();
    ClusterState copy;
    pfc::Run run;
    restore_run(copy, run, saved_run(state, run, now, wall), now, wall + off);
    EXPECT_LE(copy.job.budget.not_before, now + 24h);
    EXPECT_GE(copy.job.saved.at, now - year - 1s);
  }
}

}  // namespace
}  // namespace pfc
