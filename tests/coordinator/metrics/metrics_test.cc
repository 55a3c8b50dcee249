#include "coordinator/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/metrics/worker_metrics.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() {
    state.job.id = "0123456789abcdef";
    state.job.started_at = now;
    state.job.current.number = 1;
    state.hosts = {{.name = "a", .slots = 2, .registered = true, .last_heard = now},
                   {.name = "b", .slots = 1}};
    state.job.current.workers = {{.rank = 0, .host = "a", .pid = 7, .last_heard = now}};
    worker_joined(state, worker());
  }

  WorkerState& worker() { return state.job.current.workers[0]; }

  /// Twelve steps of a job on GPUs.
  static proto::Progress twelve_steps() {
    proto::Progress told;
    told.set_step(12);
    told.set_steps(12);
    told.set_samples(12 * 64);
    told.set_step_seconds(1.2);
    told.set_total_steps(100);
    told.set_loss(2.5);
    told.set_lr(0.1);
    told.set_gradient_norm(4);
    told.set_device("cuda:0");
    told.set_resident_bytes(4096);
    told.set_data_wait_seconds(0.5);
    told.set_own_data_wait_seconds(0.25);
    told.set_loader_seconds(3);
    told.set_loader_threads(2);
    told.set_cpu_seconds(7);
    proto::CommTotal* gradients = told.add_comm();
    gradients->set_purpose("gradients");
    proto::CollectiveTotal* kind = gradients->add_kinds();
    kind->set_kind("all_reduce");
    kind->set_calls(12);
    kind->set_sent_bytes(1000);
    kind->set_seconds(0.75);
    proto::PhaseSeconds* sample = told.add_phases();
    sample->set_phase("forward");
    sample->set_seconds(0.33);
    sample->set_count(2);
    sample->set_longest(0.3);
    for (const int count : {0, 0, 0, 0, 0, 1, 0, 0, 1}) sample->add_buckets(count);
    return told;
  }

  void tells(const proto::Progress& told) {
    metrics.add_progress(worker(), told, now);
    worker_progressed(worker(), told, now);
    progress.update(state, now);
  }

  std::string text() {
    return metrics.text({state, config, progress, stragglers, state_name, now});
  }
  void expect_lines(std::initializer_list<const char*> lines) {
    const std::string all = text();
    for (const char* line : lines) EXPECT_THAT(all, HasSubstr(std::string("\n") + line + "\n"));
  }

  TimePoint now = Clock::now();
  ClusterState state;
  RendezvousConfig config;
  JobProgress progress;
  Stragglers stragglers;
  std::string state_name = "training";
  Metrics metrics;
};

TEST_F(MetricsTest, HaveTheNamesAndLabelsThatDashboardsUse) {
  tells(twelve_steps());
  expect_lines({"pfc_job_step 12",
                "pfc_job_last_step 100",
                "pfc_job_loss 2.5",
                "pfc_job_learning_rate 0.1",
                "pfc_job_gradient_norm 4",
                "pfc_job_info{job_id=\"0123456789abcdef\"} 1",
                "pfc_job_state{state=\"training\"} 1",
                "pfc_job_state{state=\"failed\"} 0",
                "pfc_job_stragglers 0",
                "pfc_host_up{host=\"a\"} 1",
                "pfc_host_up{host=\"b\"} 0",
                "pfc_worker_up{host=\"a\",rank=\"0\"} 1",
                "pfc_worker_samples_total{host=\"a\",rank=\"0\"} 768",
                "pfc_worker_steps_total{host=\"a\",rank=\"0\"} 12",
                "pfc_worker_training_seconds_total{host=\"a\",rank=\"0\"} 1.2",
                "pfc_worker_data_wait_seconds_total{host=\"a\",rank=\"0\"} 0.5",
                "pfc_worker_input_wait_seconds_total{host=\"a\",rank=\"0\"} 0.25",
                "pfc_worker_loader_busy_seconds_total{host=\"a\",rank=\"0\"} 3",
                "pfc_worker_loader_threads{host=\"a\",rank=\"0\"} 2",
                "pfc_worker_cpu_seconds_total{host=\"a\",rank=\"0\"} 7",
                "pfc_worker_resident_memory_bytes{host=\"a\",rank=\"0\"} 4096",
                "pfc_worker_skipped_images_total{host=\"a\",rank=\"0\"} 0",
                "pfc_worker_phase_duration_seconds_bucket{phase=\"forward\",le=\"0.02\"} 0",
                "pfc_worker_phase_duration_seconds_bucket{phase=\"forward\",le=\"0.05\"} 1",
                "pfc_worker_phase_duration_seconds_count{phase=\"forward\"} 2",
                "pfc_worker_phase_duration_seconds_sum{phase=\"forward\"} 0.33",
                "pfc_worker_step_duration_seconds_count 12"});
  expect_lines(
      {"pfc_worker_collectives_total{communicator=\"gradients\",host=\"a\",kind=\"all_reduce\","
       "rank=\"0\"} 12",
       "pfc_worker_collective_sent_bytes_total{communicator=\"gradients\",host=\"a\",kind=\"all_"
       "reduce\",rank=\"0\"} 1000",
       "pfc_worker_collective_seconds_total{communicator=\"gradients\",host=\"a\",kind=\"all_"
       "reduce\",rank=\"0\"} 0.75"});
}

TEST_F(MetricsTest, HaveNoLossBeforeAFirstStep) {
  proto::Progress told = twelve_steps();
  told.set_steps(0);
  tells(told);
  EXPECT_THAT(text(), Not(HasSubstr("\npfc_job_loss ")));
}

TEST_F(MetricsTest, ContainTheValuesThatAGpuSupports) {
  proto::Progress told = twelve_steps();
  tells(told);
  EXPECT_THAT(text(), Not(HasSubstr("pfc_worker_gpu_temperature_celsius{")));
  told.mutable_gpu()->set_memory_used(8192);
  told.mutable_gpu()->set_utilisation(0.5);
  told.mutable_gpu()->set_temperature_celsius(64);
  told.mutable_gpu()->set_throttled(true);
  tells(told);
  expect_lines({"pfc_worker_gpu_memory_used_bytes{device=\"cuda:0\",host=\"a\",rank=\"0\"} 8192",
                "pfc_worker_gpu_utilization_ratio{device=\"cuda:0\",host=\"a\",rank=\"0\"} 0.5",
                "pfc_worker_gpu_temperature_celsius{device=\"cuda:0\",host=\"a\",rank=\"0\"} 64",
                "pfc_worker_gpu_throttled{device=\"cuda:0\",host=\"a\",rank=\"0\"} 1"});
  EXPECT_THAT(text(), Not(HasSubstr("pfc_worker_gpu_power_watts{")));
}

TEST_F(MetricsTest, CountersFollowTheTotalsThatWorkersReport) {
  proto::Progress told = twelve_steps();
  tells(told);
  told.set_data_wait_seconds(0.75);
  told.mutable_comm(0)->mutable_kinds(0)->set_calls(20);
  tells(told);
  EXPECT_THAT(text(), HasSubstr("data_wait_seconds_total{host=\"a\",rank=\"0\"} 0.75\n"));
  EXPECT_THAT(text(), HasSubstr("kind=\"all_reduce\",rank=\"0\"} 20\n"));
  told.set_data_wait_seconds(0.25);  // a restarted worker counts from 0
  tells(told);
  EXPECT_THAT(text(), HasSubstr("data_wait_seconds_total{host=\"a\",rank=\"0\"} 1\n"));
}

TEST_F(MetricsTest, CountCheckpointsAndDescribeTheNewest) {
  proto::Progress told = twelve_steps();
  tells(told);
  EXPECT_THAT(text(), Not(HasSubstr("pfc_job_last_checkpoint_timestamp_seconds ")));
  for (int i = 1; i <= 2; ++i) {
    told.mutable_checkpoints()->set_count(i);
    told.mutable_checkpoints()->set_seconds(3 * i);
    told.mutable_checkpoints()->set_bytes(1'000 * i);
    told.mutable_checkpoints()->set_newest_seconds(3);
    told.mutable_checkpoints()->set_newest_bytes(1'000);
    tells(told);
  }
  expect_lines({"pfc_job_checkpoints_total 2", "pfc_job_checkpoint_seconds_total 6",
                "pfc_job_checkpoint_bytes_total 2000", "pfc_job_last_checkpoint_duration_seconds 3",
                "pfc_job_last_checkpoint_size_bytes 1000"});
  EXPECT_THAT(text(), HasSubstr("\npfc_job_last_checkpoint_timestamp_seconds "));
}

TEST_F(MetricsTest, ContainNoValuesOfThePreviousJob) {
  proto::Progress told = twelve_steps();
  told.set_loss_scale(8);
  told.set_distillation_loss(0.5);
  told.set_logits_loss(0.25);
  told.mutable_checkpoints()->set_count(1);
  tells(told);
  expect_lines({"pfc_job_distillation_loss 0.5", "pfc_job_logits_loss 0.25"});
  metrics.begin_job();
  progress = {};
  state.job.id = "fedcba9876543210";
  const std::string all = text();
  EXPECT_THAT(all, HasSubstr("\npfc_job_step 0\n"));
  for (const char* name :
       {"loss", "learning_rate", "gradient_norm", "loss_scale", "distillation_loss", "logits_loss",
        "remaining_seconds", "last_checkpoint_timestamp_seconds",
        "last_checkpoint_duration_seconds", "last_checkpoint_size_bytes"}) {
    EXPECT_THAT(all, Not(HasSubstr(std::string("\npfc_job_") + name + " "))) << name;
  }
}

TEST_F(MetricsTest, KeepTheLastJobsValuesDuringACheck) {
  tells(twelve_steps());
  text();
  progress = {};
  state.job.id = "fedcba9876543210";
  state_name = "checking";
  expect_lines({"pfc_job_state{state=\"checking\"} 1", "pfc_job_state{state=\"training\"} 0",
                "pfc_job_info{job_id=\"0123456789abcdef\"} 1", "pfc_job_loss 2.5"});
}

TEST_F(MetricsTest, CountRestartsByTheirCause) {
  metrics.count_restart({.kind = Incident::Kind::kCrash});
  metrics.count_restart({.kind = Incident::Kind::kSilence, .host = "b"});
  metrics.count_restart({.kind = Incident::Kind::kPeerLost});
  expect_lines({"pfc_job_restarts_total{cause=\"crash\"} 1",
                "pfc_job_restarts_total{cause=\"silence\"} 0",
                "pfc_job_restarts_total{cause=\"host_lost\"} 1",
                "pfc_job_restarts_total{cause=\"connection_lost\"} 1"});
}

std::size_t occurrences_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST_F(MetricsTest, LimitTheNumberOfLabelValues) {
  for (int i = 0; i < 1'000; ++i) {
    proto::Progress told;
    told.add_phases()->set_phase("phase " + std::to_string(i));
    told.mutable_phases(0)->add_buckets(1);
    told.add_comm()->set_purpose("purpose " + std::to_string(i));
    told.mutable_comm(0)->add_kinds()->set_kind("kind " + std::to_string(i % 100));
    told.mutable_comm(0)->mutable_kinds(0)->set_calls(1);
    metrics.add_progress(worker(), told, now);
  }
  EXPECT_EQ(occurrences_of(text(), "pfc_worker_phase_duration_seconds_count{"), 65U);
  EXPECT_LE(occurrences_of(text(), "pfc_worker_collectives_total{"), 17U * 17U);
  EXPECT_THAT(text(), HasSubstr("pfc_worker_phase_duration_seconds_count{phase=\"other\"} 936\n"));
}

TEST_F(MetricsTest, AWorkerThatHasExitedIsDown) {
  tells(twelve_steps());
  worker().exit = ProcessExit{};
  expect_lines({"pfc_worker_up{host=\"a\",rank=\"0\"} 0"});
}

TEST_F(MetricsTest, KeepTheCountersOfARanksOldHostForAMinute) {
  tells(twelve_steps());
  text();
  state.job.current.workers = {{.rank = 0, .host = "b", .pid = 8, .joined = true}};
  metrics.begin_generation();
  EXPECT_THAT(text(), Not(HasSubstr("pfc_worker_up{host=\"a\"")));
  EXPECT_THAT(text(), HasSubstr("pfc_worker_up{host=\"b\",rank=\"0\"} 1\n"));
  EXPECT_THAT(text(), HasSubstr("pfc_worker_samples_total{host=\"a\",rank=\"0\"} 768\n"));
  now += 59s;
  EXPECT_THAT(text(), HasSubstr("pfc_worker_samples_total{host=\"a\""));
  now += 1s;
  EXPECT_THAT(text(), Not(HasSubstr("host=\"a\",rank")));
  EXPECT_THAT(text(), HasSubstr("pfc_worker_up{host=\"b\",rank=\"0\"} 1\n"));
}

TEST_F(MetricsTest, KeepTheLastValuesOfAnEndedJobForAMinute) {
  tells(twelve_steps());
  text();
  state.job = {};
  state_name = "idle";
  expect_lines({"pfc_worker_up{host=\"a\",rank=\"0\"} 0",
                "pfc_worker_resident_memory_bytes{host=\"a\",rank=\"0\"} 4096", "pfc_job_step 12",
                "pfc_job_state{state=\"idle\"} 1", "pfc_job_state{state=\"training\"} 0"});
  now += metrics::WorkerMetrics::kKept;
  EXPECT_THAT(text(), Not(HasSubstr("rank=\"0\"")));
}

TEST_F(MetricsTest, CountNoJobBeforeTheFirst) {
  expect_lines({"pfc_jobs_total{how=\"completed\"} 0", "pfc_jobs_total{how=\"failed\"} 0",
                "pfc_jobs_total{how=\"refused\"} 0", "pfc_jobs_total{how=\"stopped\"} 0"});
}

TEST_F(MetricsTest, CountTheJobsOfAService) {
  metrics.count_job("completed");
  metrics.count_job("completed");
  metrics.set_waiting_jobs(3);
  expect_lines({"pfc_jobs_total{how=\"completed\"} 2", "pfc_jobs_waiting 3"});
}

TEST_F(MetricsTest, ContainTheCoordinatorsOwnTotals) {
  metrics.set_dropped_lines(3);
  metrics.set_dropped_lines(3);
  metrics.set_journal(1, 2);
  expect_lines({"pfc_coordinator_dropped_output_lines_total 3", "pfc_coordinator_takeovers_total 1",
                "pfc_coordinator_journal_failures_total 2"});
}

}  // namespace
}  // namespace pfc
