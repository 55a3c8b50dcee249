// Tests the JSON that the coordinator serves to programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "coordinator/rules/progress/progress_limits.h"
#include "coordinator/rules/status.h"
#include "proto/message_json.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

class StatusForPrograms : public ::testing::Test {
 protected:
  StatusForPrograms() {
    state.job.id = "0123456789abcdef";
    state.job.started_at = now;
    state.job.current.number = 1;
    state.hosts = {{.name = "a", .slots = 1, .registered = true, .last_heard = now}};
    state.job.current.workers = {{.rank = 0, .host = "a", .pid = 7, .last_heard = now}};
    worker_joined(state, state.job.current.workers[0]);
  }

  void reports(double data_wait, double loss = 2.5) {
    proto::Progress message;
    message.set_step(12);
    message.set_steps(1);
    message.set_total_steps(100);
    message.set_loss(loss);
    message.set_samples_per_second(30);
    message.set_device("cpu");
    message.set_phase("forward");
    message.set_resident_bytes(4096);
    message.set_data_wait_seconds(data_wait);
    proto::PhaseSeconds* sample = message.add_phases();
    sample->set_phase("forward");
    sample->set_seconds(0.03);
    worker_progressed(state.job.current.workers[0], message, now);
    progress.update(state, now);
  }

  proto::StatusReply status() {
    return make_status(state, {}, progress, "training", false, now + 5s);
  }

  TimePoint now{1000s};
  ClusterState state;
  JobProgress progress;
};

TEST(LimitedProgress, HasShortSingleLinesAndFiniteNumbers) {
  proto::Progress sent;
  sent.set_phase("forward\njob completed");
  sent.set_device(std::string(5'000, 'x'));
  for (int i = 0; i < 100; ++i) sent.add_comm()->set_purpose("step\r");
  sent.add_phases()->set_seconds(std::numeric_limits<double>::quiet_NaN());
  sent.add_phases()->set_seconds(-1);
  sent.add_phases()->set_seconds(2);
  const proto::Progress kept = limited(sent);
  EXPECT_EQ(kept.phase(), "forward job completed");
  EXPECT_EQ(kept.device().size(), 64U);
  EXPECT_EQ(kept.comm_size(), 16);
  EXPECT_EQ(kept.comm(0).purpose(), "step ");
  for (int i = 0; i < 100; ++i) sent.mutable_phases(2)->add_buckets(1);
  EXPECT_EQ(limited(sent).phases(0).buckets_size(), 16);
  ASSERT_EQ(kept.phases_size(), 1);
  EXPECT_EQ(kept.phases(0).seconds(), 2);
}

TEST_F(StatusForPrograms, JsonAcceptsAnyBytesOfAWorker) {
  for (const char* message : {"caf\xe9", "\xc0\x80", "\xed\xa0\x80"}) {
    worker_reported(state, state.job.current.workers[0], proto::OUTCOME_FAILED, message, now);
    EXPECT_NO_THROW(to_json(status()).dump()) << message;
    state.job.current.workers[0].report.reset();
    state.job.current.incidents.clear();
  }
}

TEST(MessageJson, KeepsFieldNamesAndNumbers) {
  proto::QueueReply queue;
  queue.set_refused(std::int64_t{1} << 40);
  proto::JobStatus& job = *queue.add_jobs();
  job.set_job_id("a");
  job.set_started_ms(5);
  EXPECT_EQ(message_json(job, {"started_ms", "job_id"}).dump(), R"({"started_ms":5,"job_id":"a"})");
  const auto json = message_json(queue);
  EXPECT_EQ(json["refused"], std::int64_t{1} << 40);
  EXPECT_EQ(json["jobs"][0], message_json(job));
  EXPECT_EQ(json["jobs"][0]["state"], "");
  proto::CheckFinding finding;
  finding.set_verdict(proto::CHECK_SLOWS);
  finding.set_value(0.5);
  EXPECT_EQ(message_json(finding, {"verdict", "value", "rank"}).dump(),
            R"({"verdict":"CHECK_SLOWS","value":0.5,"rank":0})");
}

TEST_F(StatusForPrograms, JsonHasNullForUnknownNumbers) {
  reports(0.5, std::numeric_limits<double>::quiet_NaN());
  const auto json = nlohmann::json::parse(to_json(status()).dump());
  EXPECT_EQ(json.at("state"), "training");
  EXPECT_EQ(json.at("step"), 12);
  EXPECT_TRUE(json.at("loss").is_null());
  EXPECT_TRUE(json.at("remaining_seconds").is_null());
  EXPECT_EQ(json.at("workers").at(0).at("pid"), 7);
  EXPECT_DOUBLE_EQ(json.at("workers").at(0).at("stuck_seconds"), 5);
}

TEST_F(StatusForPrograms, StateOfAWorkerFollowsItsReports) {
  EXPECT_EQ(worker_state_name(state.job.current.workers[0], now), "joined");
  reports(0.5);
  EXPECT_EQ(worker_state_name(state.job.current.workers[0], now), "training");
  worker_reported(state, state.job.current.workers[0], proto::OUTCOME_STOPPED, "", now);
  EXPECT_EQ(worker_state_name(state.job.current.workers[0], now), "stopped");
}

TEST_F(StatusForPrograms, WorkerThatSendsHeartbeatsWithoutMovingHasNoProgress) {
  reports(0.5);
  now += 29s;
  state.job.current.workers[0].last_heard = now;
  EXPECT_EQ(worker_state_name(state.job.current.workers[0], now), "training");
  now += 1s;
  EXPECT_EQ(worker_state_name(state.job.current.workers[0], now), "no progress");
  reports(0.5);
  EXPECT_EQ(status().workers(0).stuck_seconds(), 35);
}

}  // namespace
}  // namespace pfc
