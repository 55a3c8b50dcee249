// Tests when a worker is blamed that sends heartbeats but blocks all others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/rules/rendezvous_fixture.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::Rendezvous;

class StuckWorkers : public Rendezvous {
 protected:
  void trains_with_three(int restarts = 0) {
    agents_answer = false;
    config.max_restarts = restarts;
    expect_hosts({{"a", 2}, {"b", 1}});
    registers("a", 2);
    registers("b");
    ASSERT_EQ(does(), "start");
    for (Rank rank = 0; rank < 3; ++rank) joins(rank);
    for (int step = 1; step <= 4; ++step) all_do_step(step);
  }

  /// All workers complete a step, which has two collectives.
  void all_do_step(std::int64_t step, double seconds = 0.5) {
    for (Rank rank = 0; rank < 3; ++rank) {
      const auto collectives = static_cast<std::uint64_t>(2 * step);
      tells(rank, step, "optimizer", collectives, collectives);
      proto::Progress of_step;
      of_step.set_step(step);
      of_step.add_phases()->set_seconds(seconds);
      of_step.mutable_phases()->rbegin()->set_longest(seconds);
      state.job.current.pace.add(of_step, true);
    }
  }

  void tells(Rank rank, std::int64_t step, const std::string& phase, std::uint64_t calls,
             std::uint64_t done) {
    proto::Progress progress;
    progress.set_step(step);
    progress.set_phase(phase);
    proto::CommTotal* comm = progress.add_comm();
    comm->set_purpose("step");
    comm->set_newest("all_gather");
    comm->set_calls(calls);
    comm->set_done(done);
    worker_progressed(state.job.current.workers.at(rank), progress, now);
  }

  /// Rank 2 does not reach the collective in which ranks 0 and 1 wait.
  void stalls(const std::string& phase = "forward") {
    tells(0, 4, "all_gather", 9, 8);
    tells(1, 4, "all_gather", 9, 8);
    tells(2, 4, phase, 8, 8);
  }

  void describes(Rank rank, const std::string& text) {
    auto& description = state.job.current.workers.at(rank).description;
    ASSERT_TRUE(description);
    description->answered = true;
    description->text = text;
  }
};

TEST_F(StuckWorkers, AnAwaitedWorkerIsNamedWithItsDescription) {
  trains_with_three();
  stalls();
  passes(29'900ms);
  EXPECT_EQ(does(), "wait");
  passes(100ms);
  EXPECT_EQ(does(), "describe");
  EXPECT_EQ(does(), "wait");
  describes(2, "state R (runs); main thread computes");
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(verdict(state).message,
            "job failed: rank 2 (host b, slot 0, pid 102): no progress for 30 s at step 4 in "
            "forward while 2 other workers wait for it in all_gather (number 9 of communicator "
            "'step'); state R (runs); main thread computes");
}

TEST_F(StuckWorkers, AnAgentThatDoesNotAnswerDelaysTheBlameByTwoSeconds) {
  trains_with_three();
  stalls();
  passes(30s);
  EXPECT_EQ(does(), "describe");
  passes(1'900ms);
  EXPECT_EQ(does(), "wait");
  passes(100ms);
  EXPECT_EQ(does(), "blame");
  EXPECT_THAT(verdict(state).message, HasSubstr("no progress for 32 s at step 4"));
}

TEST_F(StuckWorkers, AWorkerThatMovesInTimeIsNotBlamed) {
  trains_with_three();
  stalls();
  passes(30s);
  EXPECT_EQ(does(), "describe");
  tells(2, 4, "all_gather", 9, 9);
  passes(3s);
  EXPECT_EQ(does(), "wait");
  EXPECT_FALSE(state.job.current.workers.at(2).description);
}

TEST_F(StuckWorkers, ARestartReplacesOnlyTheStuckWorker) {
  trains_with_three(1);
  stalls();
  passes(30s);
  EXPECT_EQ(does(), "describe");
  describes(2, "state D (waits for a disk or a device)");
  EXPECT_EQ(does(), "blame");
  const std::vector<Member> members = begins();
  ASSERT_EQ(members.size(), 3U);
  EXPECT_NE(members[0].survivor, 0);
  EXPECT_NE(members[1].survivor, 0);
  EXPECT_EQ(members[2].survivor, 0);
}

TEST_F(StuckWorkers, SlowStepsHaveMoreTime) {
  trains_with_three();
  all_do_step(5, 6.0);
  tells(0, 5, "all_gather", 11, 10);
  tells(1, 5, "all_gather", 11, 10);
  passes(59'900ms);
  EXPECT_EQ(does(), "wait");
  passes(100ms);
  EXPECT_EQ(does(), "describe");
}

TEST_F(StuckWorkers, AFirstStepACheckpointAndAnEvaluationHaveMoreTime) {
  for (const char* phase : {"checkpoint", "evaluate", "write_model"}) {
    state = {};
    trains_with_three();
    stalls(phase);
    passes(299s);
    EXPECT_EQ(does(), "wait") << phase;
    passes(1s);
    EXPECT_EQ(does(), "describe") << phase;
  }
  state = {};
  trains_with_three();
  state.job.current.pace = {};
  stalls();
  passes(299s);
  EXPECT_EQ(does(), "wait");
  passes(1s);
  EXPECT_EQ(does(), "describe");
}

TEST_F(StuckWorkers, NoWorkerIsBlamedWhileAnyWorkerMoves) {
  trains_with_three();
  stalls();
  for (int i = 0; i < 20; ++i) {
    passes(20s);
    tells(1, 4, i % 2 == 0 ? "head" : "all_gather", 9, 8);
    EXPECT_EQ(does(), "wait");
  }
}

TEST_F(StuckWorkers, NoWorkerIsBlamedIfNoWorkerWaits) {
  trains_with_three();
  for (Rank rank = 0; rank < 3; ++rank) tells(rank, 4, "data_wait", 8, 8);
  passes(1h);
  EXPECT_EQ(does(), "wait") << "all workers may wait for one shared disk";
}

TEST_F(StuckWorkers, NoWorkerIsBlamedForAPauseOfTheCoordinator) {
  trains_with_three();
  stalls();
  passes(29s);
  now += 60s;
  postpone(state, 60s);
  EXPECT_EQ(does(), "wait");
  passes(1s);
  EXPECT_EQ(does(), "describe");
}

TEST_F(StuckWorkers, ReportsOfASilentWorkerAreIgnored) {
  trains_with_three();
  stalls();
  passes(26s);
  passes(5s, 1);  // rank 1 may have continued
  EXPECT_EQ(does(), "wait");
  passes(25s, 1);
  EXPECT_EQ(does(), "describe");
  EXPECT_TRUE(state.job.current.workers.at(1).description);
  EXPECT_FALSE(state.job.current.workers.at(2).description);
}

TEST_F(StuckWorkers, NoWorkerIsBlamedWhileTheJobStops) {
  trains_with_three();
  stalls();
  state.job.stop = StopRequest{.reason = "SIGTERM", .at = now};
  EXPECT_EQ(does(), "ask to stop");
  passes(40s);
  EXPECT_EQ(does(), "wait");
}

TEST_F(StuckWorkers, AnAwaitedWorkerIsBlamedWhenPeersGiveUp) {
  trains_with_three(1);
  tells(1, 4, "head", 9, 8);
  passes(1s);
  tells(0, 4, "all_gather", 9, 8);
  tells(2, 4, "forward", 8, 8);  // rank 2 moved last, and is the cause
  passes(10s);
  leaves(0, "all_gather: timed out");
  EXPECT_EQ(does(), "describe");
  describes(2, "");
  EXPECT_EQ(does(), "blame");
  EXPECT_EQ(root_cause(state.job.current).rank, 2);
}

TEST_F(StuckWorkers, ASilentWorkerIsDescribedToo) {
  trains_with_three();
  passes(30s, 2);
  EXPECT_EQ(does(), "describe");
  describes(2, "state T (stopped)");
  EXPECT_EQ(does(), "blame");
  EXPECT_THAT(verdict(state).message, HasSubstr("silent for 30 s; last seen at step 4 in "
                                                "optimizer; state T (stopped)"));
}

TEST_F(StuckWorkers, TheCoordinatorDescribesAWorkerToItsPeers) {
  trains_with_three();
  stalls();
  passes(31s);
  EXPECT_EQ(doing(state.job.current.workers.at(2), now),
            "at step 4 in forward for 31 s, after all_gather (number 8 of communicator 'step')");
  EXPECT_EQ(
      doing(state.job.current.workers.at(0), now),
      "at step 4 in all_gather for 31 s, within all_gather (number 9 of communicator 'step')");
}

}  // namespace
}  // namespace pfc
