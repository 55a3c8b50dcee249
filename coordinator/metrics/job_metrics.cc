#include "coordinator/metrics/job_metrics.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "coordinator/rules/decisions/restart.h"
#include "coordinator/rules/elastic/membership.h"

namespace pfc::metrics {
namespace {

// Same names as in report/status.cc.
constexpr std::array<const char*, 11> kStates{"idle",       "waiting",  "starting", "training",
                                              "restarting", "stopping", "checking", "failing",
                                              "completed",  "stopped",  "failed"};

double now_unix() { return unix_seconds(std::chrono::system_clock::now()); }

void remove(GaugeFamily& family) { family.Remove(&family.Add({})); }

void set_if_known(GaugeFamily& family, std::optional<double> value) {
  if (!value) return remove(family);
  family.Add({}).Set(*value);
}

/// Without a job, or during a check, the values of the last job stay.
bool has_job(const Seen& seen) {
  return !seen.state.job.id.empty() && seen.state_name != "checking";
}

}  // namespace

std::string cause_of(const Incident& incident) {
  if (!incident.host.empty()) return "host_lost";
  switch (incident.kind) {
    case Incident::Kind::kCrash:
      return "crash";
    case Incident::Kind::kSilence:
      return "silence";
    case Incident::Kind::kPeerLost:
      return "connection_lost";
  }
  return "other";
}

JobMetrics::JobMetrics(Registry& r)
    : info_(gauge(r, "pfc_job_info", "1: the job that runs, or the last one")),
      state_(gauge(r, "pfc_job_state", "1: the state that the job is in")),
      started_(gauge(r, "pfc_job_start_timestamp_seconds", "When the job began")),
      generation_(gauge(r, "pfc_job_generation", "Current generation")),
      restarts_left_(
          gauge(r, "pfc_job_restarts_left", "Failures after which the job still goes on")),
      workers_(gauge(r, "pfc_job_workers", "Workers of the current generation")),
      wanted_(gauge(r, "pfc_job_workers_wanted",
                    "Workers that the job has with all of its hosts and slots")),
      idle_(gauge(r, "pfc_job_slots_idle", "Slots without a worker, as spares")),
      left_out_(gauge(r, "pfc_job_slots_left_out",
                      "Slots and hosts that are left out, as they failed too often")),
      stragglers_(gauge(r, "pfc_job_stragglers",
                        "Workers whose own work takes much longer than that of the others")),
      step_(gauge(r, "pfc_job_step", "Optimizer steps done")),
      steps_(gauge(r, "pfc_job_last_step", "Optimizer steps of the whole job")),
      epoch_(gauge(r, "pfc_job_epoch", "Epoch, from 0")),
      images_(gauge(r, "pfc_job_images_seen", "Images that the state of the model has seen")),
      lost_(gauge(r, "pfc_job_images_lost",
                  "Images trained in vain, because a generation began from an older state")),
      remaining_(gauge(r, "pfc_job_remaining_seconds",
                       "Time left at the mean speed so far; not there where it is not known")),
      loss_(gauge(r, "pfc_job_loss", "Loss of the last step, mean of all workers")),
      learning_rate_(gauge(r, "pfc_job_learning_rate", "Learning rate of the last step")),
      gradient_norm_(gauge(r, "pfc_job_gradient_norm",
                           "L2 norm of the backbone's gradient in the last step, before clipping")),
      loss_scale_(gauge(r, "pfc_job_loss_scale",
                        "Scale of the loss in the last step; not there where the job has none")),
      checkpoint_at_(gauge(r, "pfc_job_last_checkpoint_timestamp_seconds",
                           "When the newest checkpoint of this job was published")),
      checkpoint_time_(gauge(r, "pfc_job_last_checkpoint_duration_seconds",
                             "Time from its begin to its final name")),
      checkpoint_size_(gauge(r, "pfc_job_last_checkpoint_size_bytes", "Bytes of all its files")),
      host_up_(gauge(r, "pfc_host_up", "1: the host's agent is registered")),
      host_heard_(gauge(r, "pfc_host_last_heartbeat_timestamp_seconds",
                        "When the coordinator has heard of the host's agent last")),
      host_slots_(gauge(r, "pfc_host_slots", "Workers that the host has room for")),
      restarts_(counter(r, "pfc_job_restarts_total",
                        "Generations that a failure has ended, and after which the job went on")),
      checkpoints_(counter(r, "pfc_job_checkpoints_total", "Checkpoints published")),
      checkpoint_seconds_(counter(r, "pfc_job_checkpoint_seconds_total",
                                  "Time from the begin of each to its final name")),
      checkpoint_held_(counter(r, "pfc_job_checkpoint_held_seconds_total",
                               "Time that training has waited for checkpoints")),
      checkpoint_bytes_(
          counter(r, "pfc_job_checkpoint_bytes_total", "Bytes of all files of checkpoints")) {
  for (const char* cause : {"crash", "silence", "host_lost", "connection_lost"}) {
    restarts_.Add({{"cause", cause}});  // begins at 0, so that the first one is an increase
  }
}

void JobMetrics::count_restart(const Incident& cause) {
  restarts_.Add({{"cause", cause_of(cause)}}).Increment();
}

void JobMetrics::add_checkpoints(const proto::Progress& before, const proto::Progress& told) {
  const proto::CheckpointTotal& old = before.checkpoints();
  const proto::CheckpointTotal& now = told.checkpoints();
  const double published = increase(old.count(), now.count());
  if (published == 0) return;
  checkpoints_.Add({}).Increment(published);
  checkpoint_seconds_.Add({}).Increment(increase(old.seconds(), now.seconds()));
  checkpoint_held_.Add({}).Increment(increase(old.held_seconds(), now.held_seconds()));
  checkpoint_bytes_.Add({}).Increment(increase(old.bytes(), now.bytes()));
  checkpoint_time_.Add({}).Set(now.newest_seconds());
  checkpoint_size_.Add({}).Set(static_cast<double>(now.newest_bytes()));
  last_checkpoint_ = now_unix();
}

void JobMetrics::begin_job() {
  last_checkpoint_ = 0;
  for (GaugeFamily* const family : {&checkpoint_at_, &checkpoint_time_, &checkpoint_size_}) {
    remove(*family);
  }
}

void JobMetrics::set(const Seen& seen) {
  const JobState& job = seen.state.job;
  if (has_job(seen) && job.id != job_id_) {
    if (!job_id_.empty()) info_.Remove(&info_.Add({{"job_id", job_id_}}));
    job_id_ = job.id;
    info_.Add({{"job_id", job_id_}}).Set(1);
    started_.Add({}).Set(unix_seconds(job.started_at, seen.now, std::chrono::system_clock::now()));
  }
  for (const char* name : kStates) state_.Add({{"state", name}}).Set(seen.state_name == name);
  set_membership(seen);
  if (has_job(seen)) set_training(seen);
  set_hosts(seen);
}

void JobMetrics::set_membership(const Seen& seen) {
  const ClusterState& state = seen.state;
  const std::vector<WorkerState>& workers = state.job.current.workers;
  generation_.Add({}).Set(static_cast<double>(state.job.current.number));
  restarts_left_.Add({}).Set(restarts_left(state, seen.config));
  workers_.Add({}).Set(static_cast<double>(workers.size()));
  wanted_.Add({}).Set(wanted_workers(state, seen.config.elastic));
  idle_.Add({}).Set(static_cast<double>(idle_slots(state, seen.now).size()));
  left_out_.Add({}).Set(static_cast<double>(std::ranges::count_if(
      state.job.blame.records,
      [&](const FailureRecord& record) { return is_left_out(record, seen.now); })));
  stragglers_.Add({}).Set(
      static_cast<double>(std::ranges::count_if(workers, [&](const WorkerState& worker) {
        return seen.stragglers.slowness(worker.rank) > 0;
      })));
}

void JobMetrics::set_training(const Seen& seen) {
  const JobProgress& progress = seen.progress;
  step_.Add({}).Set(static_cast<double>(progress.step()));
  steps_.Add({}).Set(static_cast<double>(progress.total_steps()));
  epoch_.Add({}).Set(static_cast<double>(progress.epoch()));
  images_.Add({}).Set(static_cast<double>(progress.images_seen()));
  lost_.Add({}).Set(static_cast<double>(progress.images_lost()));
  const auto of_last_step = [&](double value) {
    return progress.known() ? std::optional(value) : std::nullopt;
  };
  set_if_known(remaining_, progress.remaining_seconds());
  set_if_known(loss_, of_last_step(progress.loss()));
  set_if_known(learning_rate_, of_last_step(progress.learning_rate()));
  set_if_known(gradient_norm_, of_last_step(progress.gradient_norm()));
  const bool has_scale = progress.loss_scale() > 0;
  set_if_known(loss_scale_, has_scale ? std::optional(progress.loss_scale()) : std::nullopt);
  if (last_checkpoint_ > 0) checkpoint_at_.Add({}).Set(last_checkpoint_);
}

void JobMetrics::set_hosts(const Seen& seen) {
  const WallTime wall = std::chrono::system_clock::now();
  for (const HostState& host : seen.state.hosts) {
    const Labels labels{{"host", host.name}};
    host_up_.Add(labels).Set(host.registered ? 1 : 0);
    host_slots_.Add(labels).Set(host.slots);
    if (host.registered) {
      host_heard_.Add(labels).Set(unix_seconds(host.last_heard, seen.now, wall));
    }
  }
}

CounterFamily* JobMetrics::find_counter(const std::string& name) {
  for (CounterFamily* family :
       {&restarts_, &checkpoints_, &checkpoint_seconds_, &checkpoint_held_, &checkpoint_bytes_}) {
    if (family->GetName() == name) return family;
  }
  return nullptr;
}

}  // namespace pfc::metrics
