// Tests a job that continues: its workers leave a generation and join the next one.
#include <gmock/gmock.h>

#include <csignal>
#include <future>

#include "common/error.h"
#include "tests/coordinator/rpc/service_fixture.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::impatient;
using testing::message_of;
using testing::RunningCoordinator;
using testing::VoiceOfAgent;
using testing::wait_until;
using Outcome = CoordinatorClient::Outcome;

RendezvousConfig with_restarts(int most) {
  RendezvousConfig config = impatient();
  config.max_restarts = most;
  return config;
}

class Generations : public testing::ServiceOfOneHost {
 protected:
  Generations() : ServiceOfOneHost(with_restarts(1)) {}

  std::unique_ptr<CoordinatorClient> new_second() {
    CoordinatorClientOptions its = options(1);
    its.incarnation = 2;
    return connect_to_coordinator(its);
  }

  /// The first worker reports lost peers at `step` of a generation.
  grpc::Status finishes_in_generation(Generation left, std::int64_t step) {
    grpc::ClientContext context;
    proto::FinishRequest request;
    proto::FinishReply reply;
    request.set_job_id(testing::kJob);
    request.mutable_worker()->set_agent_id("first");
    request.mutable_worker()->set_incarnation(1);
    request.set_left_generation(left);
    request.set_outcome(proto::OUTCOME_COMM_FAILED);
    request.mutable_progress()->set_step(step);
    return stub()->Finish(&context, request, &reply);
  }

  /// The second worker dies, the first one notices, and both join again.
  std::pair<JoinResult, JoinResult> restarts() {
    agent->tells_exit(1, SIGKILL);
    first->finish(Outcome::kCommFailed, "all_reduce: rank 1 is gone");
    second = new_second();
    auto joining = std::async(std::launch::async, [&] { return second->join(20s); });
    JoinResult again = first->join(20s);
    return {std::move(again), joining.get()};
  }
};

TEST_F(Generations, KeepsTheSurvivorAndReplacesTheDeadWorker) {
  join_both();
  agent->tells_exit(1, SIGKILL);
  const proto::DesiredSlots wanted = agent->is_told_workers();
  ASSERT_EQ(wanted.slots_size(), 2);
  EXPECT_EQ(wanted.slots(0).incarnation(), 1);
  EXPECT_EQ(wanted.slots(1).incarnation(), 2);
  EXPECT_EQ(wanted.slots(0).wish(), proto::DesiredSlots::RUN);
  EXPECT_EQ(wanted.slots(1).wish(), proto::DesiredSlots::RUN);
}

TEST_F(Generations, DoesNotReuseTheNumberOfAGenerationThatTheJournalLacks) {
  join_both();
  EXPECT_TRUE(finishes_in_generation(3, 9).ok());  // this coordinator is in the first generation
  auto joining = std::async(std::launch::async, [&] { return second->join(20s); });
  EXPECT_EQ(first->join(20s).membership.generation, 4);
  EXPECT_EQ(joining.get().membership.generation, 4);
}

TEST_F(Generations, SendsTheSurvivorTheReasonOfTheEnd) {
  join_both();
  std::promise<std::string> told;
  first->on_superseded([&](const std::string& why) { told.set_value(why); });
  agent->tells_exit(1, SIGKILL);
  EXPECT_THAT(told.get_future().get(), HasSubstr("rank 1 (host a, slot 1): killed by signal 9"));
}

TEST_F(Generations, LetsASurvivorAndANewWorkerJoinTheNextGeneration) {
  join_both();
  const auto [survivor, fresh] = restarts();
  EXPECT_EQ(survivor.membership.generation, 2);
  EXPECT_EQ(survivor.membership.rank, 0);
  EXPECT_EQ(fresh.membership.generation, 2);
  EXPECT_EQ(fresh.membership.rank, 1);
  EXPECT_FALSE(testing::is_superseded(*first));
  const proto::StatusReply status = coordinator.status();
  EXPECT_EQ(status.state(), "training");
  EXPECT_EQ(status.restarts(), 1);
  EXPECT_THAT(status.last_restart(), HasSubstr("rank 1"));
}

TEST_F(Generations, RefusesRequestsThatNameThePreviousGeneration) {
  join_both();
  restarts();
  EXPECT_EQ(sets_a_value(testing::kJob, 1).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(attaches(testing::kJob, 1).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(sets_a_value(testing::kJob, 2).ok());
}

TEST_F(Generations, BeginsWithAnEmptyStoreAndRefusesCallsThatWaitForOldValues) {
  join_both();
  first->set("gloo/0", {'x'});
  auto waiting = std::async(std::launch::async, [&] {
    return message_of<CommError>([&] { first->get("gloo/1", 20s); });
  });
  wait_until([&] { return coordinator.status().workers(0).state() == "joined"; });
  agent->tells_exit(1, SIGKILL);
  EXPECT_THAT(waiting.get(), HasSubstr("generation"));
  restarts();
  EXPECT_THAT(message_of<CommError>([&] { first->get("gloo/0", 10ms); }),
              HasSubstr("was not set in time"));
}

TEST_F(Generations, IgnoresALostPeerReportedAfterTheNextGenerationHasBegun) {
  join_both();
  agent->tells_exit(1, SIGKILL);
  wait_until([&] { return coordinator.status().generation() == 2; });
  EXPECT_TRUE(first->finish(Outcome::kCommFailed, "all_reduce: rank 1 is gone").join_again);
  EXPECT_EQ(coordinator.status().state(), "starting");
}

TEST_F(Generations, WorkerThatCompletesAfterTheNextGenerationHasBegunJoinsAgain) {
  join_both();
  agent->tells_exit(1, SIGKILL);
  wait_until([&] { return coordinator.status().generation() == 2; });
  EXPECT_TRUE(first->finish(Outcome::kCompleted, "").join_again);
  EXPECT_EQ(coordinator.status().workers(0).state(), "starting");
}

TEST_F(Generations, IgnoresProgressReportedAfterTheNextGenerationHasBegun) {
  join_both();
  agent->tells_exit(1, SIGKILL);
  wait_until([&] { return coordinator.status().generation() == 2; });
  EXPECT_TRUE(finishes_in_generation(1, 7).ok());
  EXPECT_EQ(coordinator.status().workers(0).progress().step(), 0);
  EXPECT_EQ(coordinator.status().workers(0).state(), "starting");
}

TEST_F(Generations, CountsWorkersThatDieTogetherAsOneFailure) {
  join_both();
  agent->tells_exit(1, SIGKILL);
  agent->tells_exit(0, SIGKILL);
  EXPECT_EQ(agent->is_told_workers().slots(0).incarnation(), 1);
  const proto::DesiredSlots wanted = agent->is_told_workers();
  EXPECT_EQ(wanted.slots(0).incarnation(), 3);
  EXPECT_EQ(wanted.slots(1).incarnation(), 2);
  EXPECT_EQ(coordinator.status().restarts(), 1);
  EXPECT_EQ(coordinator.status().state(), "starting");
}

TEST_F(Generations, ReplacesAWorkerThatReportsItsFailureAfterTheNextGenerationHasBegun) {
  join_both();
  agent->tells_exit(1, SIGKILL);
  EXPECT_EQ(agent->is_told_workers().slots(0).incarnation(), 1);
  EXPECT_FALSE(first->finish(Outcome::kFailed, "CUDA: device lost").join_again);
  EXPECT_EQ(coordinator.status().state(), "starting");
  agent->tells_exit(0, 0);
  EXPECT_EQ(agent->is_told_workers().slots(0).incarnation(), 3);
  EXPECT_EQ(coordinator.status().restarts(), 1);
}

/// The next generation does not begin during a test.
class GenerationsThatWait : public testing::ServiceOfOneHost {
 protected:
  GenerationsThatWait() : ServiceOfOneHost(config()) {}
  static RendezvousConfig config() {
    RendezvousConfig config = with_restarts(1);
    config.grace = 1min;
    return config;
  }
};

TEST_F(GenerationsThatWait, StillBlameTheStuckWorkerWhenItsPeerJoinsAgain) {
  join_both();
  second->report({.step = 3, .phase = "optimizer"});
  wait_until([&] { return coordinator.status().workers(1).progress().step() == 3; });
  const auto stuck = [&] { return coordinator.status().workers(1).stuck_seconds(); };
  const auto silent = [&] { return coordinator.status().workers(0).silent_seconds(); };
  first->finish(Outcome::kCommFailed, "all_reduce: rank 1 does not take part");
  wait_until([&] { return stuck() > 0.2 && silent() > 0.1; });
  const TimePoint begin = Clock::now();
  auto waiting = std::async(std::launch::async,
                            [&] { return message_of<CommError>([&] { first->join(20s); }); });
  wait_until([&] { return silent() < seconds_since(begin); });  // its join has arrived
  EXPECT_GT(stuck(), 0.2);
  coordinator.stop("the test", true);
  EXPECT_THAT(waiting.get(), HasSubstr("the job is ending"));
}

TEST_F(Generations, StillBlamesASilentWorkerWhenItsPeerJoinsASecondTime) {
  join_both();
  second.reset();
  const auto silent = [&] { return coordinator.status().workers(1).silent_seconds(); };
  wait_until([&] { return silent() > 0.2; });
  EXPECT_EQ(worker(0)->join(20s).membership.generation, 1);
  EXPECT_GT(silent(), 0.2);
}

TEST_F(Generations, LetsNoWorkerJoinAgainWhenNoRestartIsLeft) {
  join_both();
  restarts();
  EXPECT_FALSE(first->finish(Outcome::kCommFailed, "all_reduce: rank 1 is gone").join_again);
  EXPECT_EQ(coordinator.status().state(), "failing");
}

TEST_F(Generations, RefusesWaitingJoinsWhenTheJobEnds) {
  join_both();
  EXPECT_TRUE(first->finish(Outcome::kCommFailed, "all_reduce: rank 1 is gone").join_again);
  auto waiting = std::async(std::launch::async,
                            [&] { return message_of<CommError>([&] { first->join(20s); }); });
  second->finish(Outcome::kBadInput, "train.rec: no such file");
  EXPECT_THAT(waiting.get(), HasSubstr("the job is ending"));
}

TEST_F(Generations, AsksASilentAgentToRegisterAgain) {
  RendezvousConfig config = with_restarts(1);
  config.limits.silence = 5s;
  RunningCoordinator other({{.name = "a", .slots = 1}}, config);
  VoiceOfAgent voice(other.address(), "a");
  voice.is_told_workers();
  EXPECT_EQ(voice.is_refused().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(other.status().state(), "restarting");
  VoiceOfAgent again(other.address(), "a");
  EXPECT_EQ(again.is_told_workers().slots(0).incarnation(), 2);
}

TEST_F(Generations, RefusesTheOldAgentOfALostHostOnceANewAgentHasRegistered) {
  RendezvousConfig config = with_restarts(1);
  config.limits.silence = 5s;
  RunningCoordinator other({{.name = "a", .slots = 1}}, config);
  VoiceOfAgent lost(other.address(), "a", "first");
  lost.is_refused();
  VoiceOfAgent its_successor(other.address(), "a", "second");
  its_successor.is_told_workers();
  VoiceOfAgent back(other.address(), "a", "first");
  EXPECT_EQ(back.is_refused().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

}  // namespace
}  // namespace pfc
