#include "coordinator/journal/saved_state.h"

#include <gtest/gtest.h>

#include "coordinator/rendezvous.h"
#include "coordinator/report/metrics.h"
#include "tests/coordinator/rendezvous_fixture.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

class SavedState : public testing::Rendezvous {
 protected:
  /// What another coordinator knows, from the messages alone.
  ClusterState again() {
    const WallTime wall = std::chrono::system_clock::now();
    ClusterState next;
    restore(next, to_saved_run(state, "why", now, wall), now, wall);
    for (const HostState& host : state.hosts) {
      HostState& copy = next.hosts.emplace_back();
      copy.name = host.name;
      restore(copy, to_saved(host), now);
    }
    for (const WorkerState& worker : state.job.current.workers) {
      next.job.current.workers.push_back(worker_from(to_saved(worker), now));
      if (worker.joined) next.job.current.joined += 1;
    }
    return next;
  }
  /// The next coordinator in the place of this one.
  void killed_and_started_again() {
    state = again();
    state.job.current.lost = was_connecting(state);
  }
  void trains() {
    trains_on_two_hosts();
    progresses(0, 3, "forward");
    progresses(1, 3, "forward");
  }
};

TEST_F(SavedState, HasAllThatDecidesAboutAGeneration) {
  trains();
  state.job.restarts.push_back({.rank = 1, .who = "rank 1", .what = "crashed", .at = now});
  state.job.stop = StopRequest{.reason = "SIGTERM", .urgent = true, .at = now, .within = 3s};
  state.job.current.workers[1].exit = ProcessExit{.code = 3};
  state.job.current.workers[1].report =
      WorkerReport{.outcome = proto::OUTCOME_COMPLETED, .message = "", .at = now};
  const ClusterState copy = again();
  EXPECT_EQ(copy.job.current.number, 1);
  EXPECT_EQ(copy.job.current.joined, 2);
  EXPECT_EQ(copy.job.restarts.front().text(), "rank 1: crashed");
  EXPECT_EQ(copy.job.restarts.front().rank, 1);
  EXPECT_EQ(copy.job.stop->reason, "SIGTERM");
  EXPECT_TRUE(copy.job.stop->urgent);
  EXPECT_EQ(copy.job.stop->within, 3s);
  EXPECT_EQ(copy.job.current.workers[1].exit->code, 3);
  EXPECT_TRUE(has_ended_well(copy.job.current.workers[1]));
  EXPECT_EQ(copy.hosts[1].first_rank, 1);
  EXPECT_EQ(copy.hosts[1].incarnation, state.hosts[1].incarnation);
  EXPECT_TRUE(copy.hosts[0].registered);
}

TEST_F(SavedState, IsTheSameWhenItIsSavedAgain) {
  trains();
  const ClusterState copy = again();
  for (std::size_t i = 0; i < state.hosts.size(); ++i) {
    EXPECT_EQ(to_saved(copy.hosts[i]).SerializeAsString(),
              to_saved(state.hosts[i]).SerializeAsString());
  }
  for (std::size_t i = 0; i < state.job.current.workers.size(); ++i) {
    EXPECT_EQ(to_saved(copy.job.current.workers[i]).SerializeAsString(),
              to_saved(state.job.current.workers[i]).SerializeAsString());
  }
}

TEST_F(SavedState, GoesOnWithAGenerationThatTrains) {
  trains();
  killed_and_started_again();
  EXPECT_EQ(does(), "wait");
  EXPECT_EQ(tick().reason, "training");
  EXPECT_EQ(state.job.current.number, 1);
}

TEST_F(SavedState, BeginsAnotherGenerationWithoutARestartWhereWorkersWereConnecting) {
  trains_on_two_hosts();
  config.max_restarts = 0;
  killed_and_started_again();
  const std::vector<Member> members = begins();
  EXPECT_EQ(members.size(), 2);
  EXPECT_EQ(members[0].survivor, 1);
  EXPECT_EQ(state.job.current.number, 2);
  EXPECT_TRUE(state.job.restarts.empty());
  EXPECT_FALSE(state.job.current.lost);
}

TEST_F(SavedState, WaitsForAHostThatIsMissingBeforeItBeginsAgain) {
  trains_on_two_hosts();
  killed_and_started_again();
  state.hosts[1].registered = false;
  EXPECT_EQ(tick().reason, "waiting for b to register again");
  passes(config.limits.start);
  EXPECT_EQ(does(), "blame");
  EXPECT_FALSE(may_restart(state, config));
}

TEST_F(SavedState, KeepsTheTimeThatTheJobHasRun) {
  trains();
  now += 90s;
  EXPECT_NEAR(seconds_since(again().job.started_at, now), 90, 2);
}

TEST(SavedMetrics, GoOnCounting) {
  WorkerState worker{.rank = 0, .host = "a"};
  proto::Progress first, second;
  first.set_data_wait_seconds(0.5);
  first.add_comm()->set_purpose("step");
  first.mutable_comm(0)->set_sent_bytes(100);
  first.add_phases()->set_phase("forward");
  first.mutable_phases(0)->set_seconds(0.03);
  second = first;
  second.set_data_wait_seconds(0.75);
  const auto text = [](Metrics& metrics) { return metrics.text({}, {}, 0); };
  Metrics unbroken, killed, next;
  for (Metrics* each : {&unbroken, &killed}) {
    each->add_progress(worker, first);
    each->count_job("completed");
  }
  next.restore(killed.saved());
  EXPECT_EQ(text(next), text(unbroken));
  worker.progress = first;
  unbroken.add_progress(worker, second);
  next.add_progress(worker, second);
  EXPECT_EQ(text(next), text(unbroken));
}

TEST(SavedQueue, RemembersJobsThatHaveEnded) {
  JobQueue queue, next;
  queue.remember({.id = "a",
                  .file = "a.json",
                  .submitted = from_ms(1'000),
                  .started = {},
                  .ended = from_ms(3'000),
                  .how = Verdict::Kind::kStopped,
                  .message = "out",
                  .workers = 3,
                  .first_ranks = {0, 2}});
  restore(next, to_saved(queue.ended()));
  const EndedJob& job = next.ended().front();
  EXPECT_EQ(job.id, "a");
  EXPECT_FALSE(job.started);
  EXPECT_EQ(job.ended, from_ms(3'000));
  EXPECT_EQ(job.how, Verdict::Kind::kStopped);
  EXPECT_EQ(job.first_ranks, (std::vector<Rank>{0, 2}));
}

TEST(SavedQueue, HasTheWholeJob) {
  const Job job = job_from(to_saved(Job{.id = "a",
                                        .file = "f",
                                        .json = "{}",
                                        .device = DeviceChoice::kCuda,
                                        .submitted = from_ms(5)}));
  EXPECT_EQ(job.json, "{}");
  EXPECT_EQ(job.device, DeviceChoice::kCuda);
  EXPECT_EQ(job.submitted, from_ms(5));
}

}  // namespace
}  // namespace pfc
