#include "worker/checkpoint/checkpoint_schedule.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/thread_comm.h"

namespace pfc {
namespace {

/// Records its calls as text.
class RecordingWriter final : public CheckpointWriter {
 public:
  void begin(const TrainingState&, const TrainedSoFar&, const nlohmann::json&,
             CheckpointMode) override {}
  std::int64_t finished_step() override { return on_disk; }
  void wait() override { told.emplace_back("wait"); }
  std::uint64_t publish(std::int64_t step) override {
    told.push_back("publish " + std::to_string(step));
    return 100;
  }

  std::vector<std::string> told;
  std::int64_t on_disk = 0;
};

class CheckpointScheduleTest : public ::testing::Test {
 protected:
  using Told = std::vector<std::string>;

  template <typename Body>
  void with_schedule(Body body) {
    testing::run_ranks(1, [&](Comm& comm) {
      const auto begin = [this](std::int64_t step, bool last) {
        writer_.told.push_back((last ? "last " : "begin ") + std::to_string(step));
      };
      JobConfig steps;  // steps of one image each
      steps.batch_size = 1;
      const StepPlan plan = plan_steps(steps, 1, 1000);
      CheckpointSchedule schedule(job_, plan, begin, writer_, comm);
      body(schedule);
    });
  }

  JobConfig job_;
  RecordingWriter writer_;
};

TEST_F(CheckpointScheduleTest, PublishesWhenEveryWorkersPartIsOnDisk) {
  job_.save_every_steps = 10;
  with_schedule([&](CheckpointSchedule& schedule) {
    schedule.after_step(10, {});
    schedule.after_step(11, {.checkpoint_on_disk = 0});
    EXPECT_EQ(writer_.told, Told({"begin 10"}));
    schedule.after_step(12, {.checkpoint_on_disk = 10});
    EXPECT_EQ(writer_.told, Told({"begin 10", "publish 10"}));
  });
}

TEST_F(CheckpointScheduleTest, ReturnsBegunAndPublishedCheckpoints) {
  job_.save_every_steps = 10;
  with_schedule([&](CheckpointSchedule& schedule) {
    const auto first = schedule.after_step(10, {});
    ASSERT_EQ(first.size(), 1U);
    EXPECT_EQ(first[0].step, 10);
    EXPECT_FALSE(first[0].published);
    EXPECT_TRUE(schedule.after_step(11, {}).empty());
    const auto second = schedule.after_step(20, {});
    ASSERT_EQ(second.size(), 2U);
    EXPECT_TRUE(second[0].published);
    EXPECT_EQ(second[0].step, 10);
    EXPECT_GE(second[0].since_begin, second[0].seconds);
    EXPECT_EQ(second[0].bytes, 100);
    EXPECT_FALSE(second[1].published);
    EXPECT_EQ(second[1].step, 20);
  });
}

TEST_F(CheckpointScheduleTest, WaitsForASlowCheckpointBeforeItBeginsTheNext) {
  job_.save_every_steps = 10;
  with_schedule([&](CheckpointSchedule& schedule) {
    schedule.after_step(10, {});
    schedule.after_step(20, {});
    EXPECT_EQ(writer_.told, Told({"begin 10", "wait", "publish 10", "begin 20"}));
  });
}

TEST_F(CheckpointScheduleTest, BeginsOneCheckpointForAllRequestsBeforeIt) {
  job_.save_every_seconds = 1e-9;
  with_schedule([&](CheckpointSchedule& schedule) {
    WorkerSignals request;
    schedule.fill(request);
    for (std::int64_t step = 5; step < 9; ++step) schedule.after_step(step, request);
    EXPECT_EQ(writer_.told, Told({"begin 5"}));
    schedule.fill(request);  // made after the checkpoint had begun
    schedule.after_step(9, request);
    EXPECT_EQ(writer_.told, Told({"begin 5", "wait", "publish 5", "begin 9"}));
  });
}

TEST_F(CheckpointScheduleTest, BeginsNoCheckpointByTimeIfOneByStepsHasBegunSinceTheRequest) {
  job_.save_every_steps = 10;
  job_.save_every_seconds = 1e-9;
  with_schedule([&](CheckpointSchedule& schedule) {
    WorkerSignals request;
    schedule.fill(request);
    schedule.after_step(10, {});
    schedule.after_step(11, request);
    EXPECT_EQ(writer_.told, Told({"begin 10"}));
  });
}

TEST_F(CheckpointScheduleTest, FinishesWithAPublishedCheckpointOfTheLastStep) {
  job_.save_every_steps = 10;
  with_schedule([&](CheckpointSchedule& schedule) {
    schedule.finish(17);
    EXPECT_EQ(writer_.told, Told({"last 17", "wait", "publish 17"}));
  });
}

TEST_F(CheckpointScheduleTest, DoesNotWriteTheLastStepTwice) {
  job_.save_every_steps = 10;
  with_schedule([&](CheckpointSchedule& schedule) {
    schedule.after_step(10, {});
    schedule.finish(10);
    EXPECT_EQ(writer_.told, Told({"begin 10", "wait", "publish 10"}));
  });
}

TEST_F(CheckpointScheduleTest, RequestsACheckpointByTimeOnRankZero) {
  job_.save_every_seconds = 1e-9;
  with_schedule([&](CheckpointSchedule& schedule) {
    writer_.on_disk = 7;
    WorkerSignals mine;
    schedule.fill(mine);
    EXPECT_EQ(mine.checkpoint_request, 1);
    EXPECT_EQ(mine.checkpoint_on_disk, 7);
  });
}

}  // namespace
}  // namespace pfc
